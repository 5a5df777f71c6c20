package e2e

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestConnectionStorm: far more clients than the limit dial again and again.
// Those that are in are served, and afterwards nothing is left of the storm.
func TestConnectionStorm(t *testing.T) {
	const limit, dialers, dials = 100, 40, 100
	onLoops(t, func(t *testing.T, s *server) {
		before := s.footprint(t)
		stop := s.keepServing(t, 4)
		var in, out atomic.Int64
		together(t, dialers, func(i int) error {
			var mine []*peer
			defer func() {
				for _, p := range mine {
					p.reset()
				}
			}()
			for j := range dials {
				p, err := s.tryDial(t, 0)
				if err != nil {
					return err
				}
				mine = append(mine, p)
				if err := p.write(release(0, "storm")); err == nil {
					r, err := p.next()
					switch {
					case err == nil && r.is('N', 0, "storm"):
						in.Add(1)
					case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
						out.Add(1)
					default:
						return fmt.Errorf("got %v, %v", r, err)
					}
				} else {
					out.Add(1)
				}
				if len(mine) > 3 || j%3 == 0 {
					mine[0].close()
					mine = mine[1:]
				}
			}
			return nil
		})
		t.Logf("%d got in, %d were turned away", in.Load(), out.Load())
		stop()
		s.backTo(t, before)
		if n := strings.Count(s.stderr.String(), "\n"); n > 60 {
			t.Errorf("the server wrote %d lines about it", n)
		}
		await(t, "the whole limit is there again", func() bool {
			var all []*peer
			defer func() {
				for _, p := range all {
					p.close()
				}
			}()
			for range limit {
				all = append(all, s.dial(t))
			}
			for _, p := range all {
				if !p.served(t) {
					return false
				}
			}
			return true
		})
	}, fmt.Sprint("MAX_CONNECTIONS=", limit))
}

// TestThousandsOfConnections holds very many connections at once, each with a
// lock and an attempt that waits; then all leave.
func TestThousandsOfConnections(t *testing.T) {
	n := 2000
	if full {
		n = 8192
	}
	onLoops(t, func(t *testing.T, s *server) {
		before := s.footprint(t)
		peers := make([]*peer, n)
		const workers = 32
		together(t, workers, func(w int) error {
			first := w * n / workers
			for i := first; i < (w+1)*n/workers; i++ {
				p, err := s.tryDial(t, 0)
				if err != nil {
					return err
				}
				peers[i] = p
				key := fmt.Sprint("k", i)
				if err := p.write(acquire(uint64(i), 0, 250, key)); err != nil {
					return err
				}
				if _, err := p.want('A', uint64(i), key); err != nil {
					return err
				}
				key = fmt.Sprint("k", first) // one long queue a worker
				if err := p.write(acquire(uint64(i), 250, 250, key), release(0, key)); err != nil {
					return err
				}
				if _, err := p.want('N', 0, key); err != nil {
					return err
				}
			}
			return nil
		})
		s.awaitMetrics(t, samples{
			"ticketing_connections": float64(n), "ticketing_waiters": float64(n), "ticketing_keys": float64(n),
		})
		if err := s.dial(t).turnedAway(); err != nil {
			t.Error(err)
		}
		t.Logf("with %d connections: %v", n, s.footprint(t))
		begin := time.Now()
		for i, p := range peers {
			if i%2 == 0 {
				p.close()
			} else {
				p.reset()
			}
		}
		s.backTo(t, before)
		t.Logf("small again %v after they left", time.Since(begin).Round(time.Millisecond))
		s.dial(t).quiet()
	}, fmt.Sprint("MAX_CONNECTIONS=", n))
}
