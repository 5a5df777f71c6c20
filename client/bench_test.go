package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"ticketing/codec"
)

// BenchmarkPairs is acquire and release from 64 goroutines over 2 connections,
// each goroutine on a key of its own. The server is a loop that grants
// everything; TICKETING_BENCH_ADDR names a real one instead.
//
//	go test -bench Pairs -benchmem ./client
func BenchmarkPairs(b *testing.B) {
	for _, goroutines := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			benchmarkPairs(b, goroutines)
		})
	}
}

func benchmarkPairs(b *testing.B, goroutines int) {
	addr := os.Getenv("TICKETING_BENCH_ADDR")
	if addr == "" {
		addr = startYes(b)
	}
	c, err := New(Config{Addrs: []string{addr}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	var left atomic.Int64
	run := func(n int) {
		left.Store(int64(n))
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				key := fmt.Sprintf("bench/key/of/goroutine/%d", i)
				for left.Add(-1) >= 0 {
					ticket, err := c.Acquire(ctx, key, 0)
					if err != nil {
						b.Error(err)
						return
					}
					if err := ticket.Release(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	run(4 * goroutines) // connections and pools
	before := c.Stats()
	b.ReportAllocs()
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	after := c.Stats()
	b.ReportMetric(float64(after.Frames-before.Frames)/float64(after.Writes-before.Writes), "frames/write")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// startYes serves connections that grant every acquire and release every
// token, with a Write for each Read.
func startYes(tb testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	var token atomic.Uint64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go sayYes(conn, &token)
		}
	}()
	return l.Addr().String()
}

func sayYes(conn net.Conn, token *atomic.Uint64) {
	defer conn.Close()
	buf, out := make([]byte, 64<<10), []byte(nil)
	for w := 0; ; {
		n, err := conn.Read(buf[w:])
		if err != nil {
			return
		}
		w += n
		r := 0
		out = out[:0]
		for {
			var q codec.Request
			n, reason := codec.ParseRequest(buf[r:w], &q)
			if n == 0 || reason != codec.ReasonNone {
				break
			}
			r += n
			if q.Op == codec.OpAcquire {
				out = codec.AppendGranted(out, token.Add(1), q.ID, q.Key)
			} else {
				out = codec.AppendReleased(out, q.ID, q.Key)
			}
		}
		w = copy(buf, buf[r:w])
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}
