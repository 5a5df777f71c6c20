package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTokensRise: a token issued later is greater, over all keys, connections
// and loops (§5). Later means: the request was sent when the other's grant had
// arrived.
func TestTokensRise(t *testing.T) {
	const clients, rounds, keys = 16, 60, 8
	onLoops(t, func(t *testing.T, s *server) {
		var seen atomic.Uint64 // greatest token that has arrived anywhere
		var issued sync.Map
		together(t, clients, func(i int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			for round := range rounds {
				before := seen.Load()
				var b []byte
				for k := range keys {
					b = append(b, acquire(uint64(k), 0, 250, fmt.Sprintf("%d-%d-%d", i, round, k))...)
				}
				if err := p.write(b); err != nil {
					return err
				}
				b = b[:0]
				for range keys {
					r, err := p.next()
					if err != nil {
						return err
					}
					if r.op != 'A' || r.token <= before {
						return fmt.Errorf("got %v when token %d had been issued", r, before)
					}
					if other, twice := issued.LoadOrStore(r.token, r.text); twice {
						return fmt.Errorf("%v: that token was issued for %v", r, other)
					}
					raise(&seen, r.token)
					b = append(b, release(r.token, r.text)...)
				}
				if err := p.write(b); err != nil {
					return err
				}
				for range keys {
					if r, err := p.next(); err != nil || r.op != 'R' {
						return fmt.Errorf("got %v, %v", r, err)
					}
				}
			}
			return nil
		})
	})
}

// raise makes m at least v.
func raise(m *atomic.Uint64, v uint64) {
	for old := m.Load(); old < v && !m.CompareAndSwap(old, v); old = m.Load() {
	}
}

// TestExclusion: many clients contend for few keys. Two never hold one at a
// time, and each holder's token is greater than the one before.
func TestExclusion(t *testing.T) {
	const clients, rounds = 24, 50
	type guard struct {
		holder atomic.Uint64
		token  atomic.Uint64
	}
	onLoops(t, func(t *testing.T, s *server) {
		guards := make([]guard, 5)
		var seen atomic.Uint64 // greatest token over all keys
		together(t, clients, func(i int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			for round := range rounds {
				k := (i + round) % len(guards)
				g, key, o := &guards[k], fmt.Sprint("guard", k), newOwner()
				before := seen.Load()
				if err := p.write(acquire(o, 250, 250, key)); err != nil {
					return err
				}
				r, err := p.want('A', o, key)
				if err != nil {
					return err
				}
				if r.token <= before {
					return fmt.Errorf("got %v when token %d had been issued", r, before)
				}
				raise(&seen, r.token)
				if !g.holder.CompareAndSwap(0, o) {
					return fmt.Errorf("%s: granted to %#x while %#x held it", key, o, g.holder.Load())
				}
				if last := g.token.Swap(r.token); last >= r.token {
					return fmt.Errorf("%s: token %d after %d", key, r.token, last)
				}
				if round%3 == 0 { // hold it for a round trip
					if err := p.write(release(r.token+1<<40, key)); err != nil {
						return err
					}
					if _, err := p.want('N', r.token+1<<40, key); err != nil {
						return err
					}
				}
				g.holder.Store(0)
				if err := p.write(release(r.token, key)); err != nil {
					return err
				}
				if _, err := p.want('R', r.token, key); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
