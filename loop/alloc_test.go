package loop

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"ticketing/codec"
)

// driver sends pairs over one connection and allocates nothing while it does.
type driver struct {
	c       net.Conn
	keys    [][]byte
	out, in []byte
	tokens  []uint64
}

func newDriver(t testing.TB, srv *Server, depth int) *driver {
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newDriverOn(c, depth)
}

func newDriverOn(c net.Conn, depth int) *driver {
	d := &driver{c: c, in: make([]byte, 64<<10), tokens: make([]uint64, depth)}
	for i := range depth {
		d.keys = append(d.keys, fmt.Appendf(nil, "%s-%020d", c.LocalAddr().String()[10:], i))
	}
	return d
}

// pairs acquires all keys at once, then releases them all.
func (d *driver) pairs(t testing.TB) {
	d.out = d.out[:0]
	for i, k := range d.keys {
		d.out = codec.AppendAcquire(d.out, uint64(i), 0, 30, k)
	}
	d.exchange(t, codec.OpGranted)
	d.out = d.out[:0]
	for i, k := range d.keys {
		d.out = codec.AppendRelease(d.out, d.tokens[i], k)
	}
	d.exchange(t, codec.OpReleased)
}

func (d *driver) exchange(t testing.TB, op codec.Op) {
	if _, err := d.c.Write(d.out); err != nil {
		t.Fatal(err)
	}
	var r codec.Reply
	have, off := 0, 0
	for got := 0; got < len(d.keys); {
		n, err := d.c.Read(d.in[have:])
		if err != nil {
			t.Fatal(err)
		}
		have += n
		for off < have {
			n, err := codec.ParseReply(d.in[off:have], &r)
			if err != nil || n > 0 && r.Op != op {
				t.Fatalf("reply %c, %v; want %c", r.Op, err, op)
			}
			if n == 0 {
				break
			}
			if op == codec.OpGranted {
				d.tokens[r.Owner] = r.Token
			}
			off += n
			got++
		}
	}
}

// mallocs is how many allocations the process makes in a round of f, once the
// buffers have their sizes.
func mallocs(f func()) float64 {
	const rounds = 500
	for range rounds {
		f()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / rounds
}

// Steady state allocates nothing, neither on one loop nor between two. The
// client shares the process and allocates nothing either.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = loops })
			d := newDriver(t, srv, 64)
			if n := mallocs(func() { d.pairs(t) }) / 64; n > 0.01 {
				t.Errorf("%.3f allocations a pair", n)
			}
		})
	}
}

// With TLS crypto/tls allocates once or twice for a record that is read, on either
// side and whatever is in it, and this package nothing.
func TestTLSSteadyStateAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	srv := startServer(t, func(c *Config) { c.Loops, c.TLS = 1, serverTLS(t) })
	d := newDriverOn(dial(t, srv).Conn, 64)
	// Four records: 64 requests in each of two, and their answers.
	if n := mallocs(func() { d.pairs(t) }); n > 8.5 {
		t.Errorf("%.2f allocations for 64 pairs", n)
	}
}

// A waiter that parks, is handed the key over and hands it on allocates nothing.
func TestHandOverAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = loops })
			a, b := newDriver(t, srv, 1), newDriver(t, srv, 1)
			key := []byte("one-key")
			var token uint64
			read := func(d *driver, op byte, n int) []byte {
				if _, err := io.ReadFull(d.c, d.in[:n]); err != nil || d.in[0] != op {
					t.Fatalf("%c, %v; want %c", d.in[0], err, op)
				}
				return d.in[:n]
			}
			grant := func(d *driver) { token = binary.BigEndian.Uint64(read(d, 'A', 17+len(key)+1)[1:]) }
			send := func(d *driver, frame []byte) {
				d.out = frame
				if _, err := d.c.Write(frame); err != nil {
					t.Fatal(err)
				}
			}
			send(a, codec.AppendAcquire(a.out[:0], 1, 255, 30, key))
			grant(a)
			round := func() {
				for _, d := range []*[2]*driver{{a, b}, {b, a}} {
					send(d[1], codec.AppendAcquire(d[1].out[:0], 1, 255, 30, key))
					for srv.budgets.Waiters.Used() == 0 {
						runtime.Gosched()
					}
					send(d[0], codec.AppendRelease(d[0].out[:0], token, key))
					read(d[0], 'R', 9+len(key)+1)
					grant(d[1])
				}
			}
			if n := mallocs(round) / 2; n > 0.02 {
				t.Errorf("%.3f allocations a hand-over", n)
			}
		})
	}
}

func BenchmarkPairs(b *testing.B) {
	for _, loops := range []int{1, 2} {
		for _, depth := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("loops=%d/depth=%d", loops, depth), func(b *testing.B) {
				srv := startServer(b, func(c *Config) { c.Loops = loops })
				d := newDriver(b, srv, depth)
				b.ReportAllocs()
				for b.Loop() {
					d.pairs(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/pair")
			})
		}
	}
}
