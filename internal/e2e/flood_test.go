package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// TestAcquireFlood sends acquires of many connections in writes as large as
// can be. Each is answered once: granted, or busy if too many were in flight,
// and then it took nothing.
func TestAcquireFlood(t *testing.T) {
	const clients, n = 32, 2000
	onLoops(t, func(t *testing.T, s *server) {
		var granted, busy atomic.Int64
		together(t, clients, func(i int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			var b []byte
			for j := range n {
				b = append(b, acquire(uint64(j), 0, 250, fmt.Sprintf("%d-%d", i, j))...)
			}
			go p.write(b)
			outcome := make([]byte, n)
			for range n {
				r, err := p.next()
				switch {
				case err != nil:
					return err
				case r.owner >= n || outcome[r.owner] != 0 || r.text != fmt.Sprintf("%d-%d", i, r.owner) || r.op != 'A' && r.op != 'B':
					return fmt.Errorf("got %v", r)
				}
				if outcome[r.owner] = r.op; r.op == 'A' {
					granted.Add(1)
				} else {
					busy.Add(1)
				}
			}
			for j, op := range outcome { // what was refused is free
				if op != 'B' {
					continue
				}
				key := fmt.Sprintf("%d-%d", i, j)
				for ok := false; !ok; {
					if err := p.write(acquire(uint64(j), 0, 250, key)); err != nil {
						return err
					}
					r, err := p.next()
					if ok = r.is('A', uint64(j), key); err != nil || !ok && !r.is('B', uint64(j), key) {
						return fmt.Errorf("got %v, %v", r, err)
					}
					if ok {
						granted.Add(1)
					} else {
						busy.Add(1)
					}
				}
			}
			return nil
		})
		t.Logf("%d were granted, %d found too many in flight", granted.Load(), busy.Load())
		s.awaitMetrics(t, samples{
			`ticketing_acquires_total{result="granted"}`:            clients * n,
			`ticketing_acquires_total{result="busy"}`:               float64(busy.Load()),
			`ticketing_refusals_total{reason="acquires_in_flight"}`: float64(busy.Load()),
			`ticketing_in_use{resource="acquires_in_flight"}`:       0,
			"ticketing_keys": clients * n,
		})
	})
}

// TestReleasesAreNeverRefused floods the server with releases of many
// connections: each is answered, also when the client has half-closed, and the
// acquires of others are served all the while.
func TestReleasesAreNeverRefused(t *testing.T) {
	const clients, n = 24, 1500
	onLoops(t, func(t *testing.T, s *server) {
		stop := s.keepServing(t, 2)
		together(t, clients, func(i int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			key := func(j int) string { return fmt.Sprint("flood", i, "-", j%20) }
			held := map[string]uint64{}
			for j := range 20 {
				o := newOwner()
				if err := p.write(acquire(o, 0, 250, key(j))); err != nil {
					return err
				}
				r, err := p.want('A', o, key(j))
				if err != nil {
					return err
				}
				held[key(j)] = r.token
			}
			var b []byte
			for j := range n {
				b = append(b, release(uint64(j), "nothing"+key(j*7))...)
				if j < 20 {
					b = append(b, release(held[key(j)], key(j))...)
				}
			}
			wrote := make(chan error, 1)
			go func() {
				err := p.write(b)
				if i%2 == 0 && err == nil {
					err = p.conn.CloseWrite()
				}
				wrote <- err
			}()
			released := 0
			for range n + 20 {
				r, err := p.next()
				switch {
				case err == nil && r.op == 'R' && held[r.text] == r.token:
					released++
				case err != nil || r.op != 'N':
					return fmt.Errorf("got %v, %v", r, err)
				}
			}
			if released != 20 {
				return fmt.Errorf("%d of 20 were released", released)
			}
			if err := <-wrote; err != nil || i%2 == 1 {
				return err
			}
			return p.wantEnd("")
		})
		stop()
	}, "MAX_KEYS=540", "MAX_TOTAL_WAITERS=1")
}
