package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestMaxKeys: new keys are admitted up to 90 % of the limit and again below
// 75 %. Keys that are held already, and releases, are not concerned.
func TestMaxKeys(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 4, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			onLoops(t, func(t *testing.T, s *server) {
				closes, opens := closesAt(limit), opensAt(limit)
				p := s.dial(t)
				type held struct {
					key   string
					token uint64
				}
				var all []held
				next := 0
				take := func() {
					t.Helper()
					key := fmt.Sprint("k", next)
					next++
					all = append(all, held{key, p.lock(key, 250)})
				}
				full := func() {
					t.Helper()
					p.refused('B', 0, fmt.Sprint("k", next))
					p.refused('B', 250, fmt.Sprint("k", next))
					p.refused('T', 0, all[0].key)
					p.send(release(1, fmt.Sprint("k", next)))
					p.expect('N', 1, fmt.Sprint("k", next))
				}
				for range 3 {
					for len(all) < closes {
						take()
					}
					for len(all) > opens && len(all) > 0 {
						full()
						// A hand-over keeps the key: it needs no admission.
						o := p.queue(250, 250, all[0].key)
						p.send(release(all[0].token, all[0].key))
						rs := p.collect(2)
						if rs[0].op != 'A' {
							rs[0], rs[1] = rs[1], rs[0]
						}
						if !rs[0].is('A', o, all[0].key) {
							t.Fatalf("got %v", rs)
						}
						full()
						p.unlock(rs[0].token, all[0].key)
						all = all[1:]
					}
					take() // open again
				}
			}, fmt.Sprint("MAX_KEYS=", limit))
		})
	}
}

// TestExpiredKeysMakeRoom: keys whose lease ended, which nobody asks for
// again, are given back by the sweep.
func TestExpiredKeysMakeRoom(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for i := range 90 {
			p.lock(fmt.Sprint("k", i), 1)
		}
		p.refused('B', 0, "new")
		begin := time.Now()
		for i := 0; ; i++ {
			o := newOwner()
			p.send(acquire(o, 0, 250, "new"))
			r, err := p.next()
			if err != nil || !r.is('A', o, "new") && !r.is('B', o, "new") {
				t.Fatalf("got %v, %v", r, err)
			}
			if r.op == 'A' {
				break
			}
			if time.Since(begin) > 10*time.Second { // a lease, a sweep and some
				t.Fatal("no expired key was given back")
			}
			time.Sleep(20 * time.Millisecond)
		}
		s.awaitMetrics(t, samples{"ticketing_keys": 1})
	}, "MAX_KEYS=100")
}
