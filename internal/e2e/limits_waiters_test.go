package e2e

import (
	"fmt"
	"testing"
)

// closesAt and opensAt are the use at which an admission with hysteresis
// closes, 90 % of its limit, and the greatest use below 75 %, at which it
// opens again (§7).
func closesAt(limit int) int { return (limit*9 + 9) / 10 }
func opensAt(limit int) int  { return (limit*3+3)/4 - 1 }

// TestMaxWaiters: exactly that many attempts queue on a key, the next gets B
// at once, and when one leaves one gets in. Other keys have queues of their
// own.
func TestMaxWaiters(t *testing.T) {
	for _, limit := range []int{1, 2, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			onLoops(t, func(t *testing.T, s *server) {
				p, q := s.dial(t), s.dial(t)
				token := p.lock("k", 250)
				var owners []uint64
				for range limit {
					owners = append(owners, p.queue(250, 250, "k"))
				}
				q.lock("other", 250)
				for range 3 {
					q.refused('B', 250, "k")
					q.refused('B', 1, "k")
					p.refused('B', 255, "k")
					q.refused('T', 0, "k")
				}
				q.queue(250, 250, "other")
				// A hand-over makes one place.
				for range 3 {
					q.unlock(token, "k")
					token = p.expect('A', owners[0], "k").token
					owners = append(owners[1:], p.queue(250, 250, "k"))
					q.refused('B', 250, "k")
				}
				// A connection's end makes as many as it had.
				p.reset()
				await(t, "only the other key has a waiter", func() bool {
					return s.metrics(t)["ticketing_waiters"] == 1
				})
				for range limit {
					q.queue(250, 250, "k")
				}
				q.refused('B', 250, "k")
				q.send(release(token, "k"))
				if r := q.collect(2); r[0].op+r[1].op != 'R'+'A' {
					t.Fatalf("got %v", r)
				}
			}, fmt.Sprint("MAX_WAITERS=", limit))
		})
	}
}

// TestMaxWaitersTimeout: an attempt whose wait ran out makes a place as well.
func TestMaxWaitersTimeout(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p, q := s.dial(t), s.dial(t)
		p.lock("k", 250)
		a, b := p.queue(2, 250, "k"), p.queue(4, 250, "k")
		q.refused('B', 250, "k")
		p.expect('T', a, "k")
		q.queue(250, 250, "k")
		q.refused('B', 250, "k")
		p.expect('T', b, "k")
		q.queue(250, 250, "k")
		q.refused('B', 250, "k")
	}, "MAX_WAITERS=2")
}

// TestMaxTotalWaiters: the admission of waiters closes at 90 % of its limit
// and opens below 75 %, over the queues of all loops together.
func TestMaxTotalWaiters(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 4, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			onLoops(t, func(t *testing.T, s *server) {
				closes, opens := closesAt(limit), opensAt(limit)
				p := s.dial(t)
				tokens, owners := map[string]uint64{}, map[string]uint64{}
				var queued []string
				enqueue := func() {
					key := fmt.Sprint("k", len(tokens))
					tokens[key] = p.lock(key, 250) // a free key needs no place
					owners[key] = p.queue(250, 250, key)
					queued = append(queued, key)
				}
				full := func() {
					t.Helper()
					p.refused('B', 250, queued[0])
					p.refused('B', 1, queued[len(queued)-1])
					p.refused('T', 0, queued[0]) // an attempt that never queues is no waiter
					p.send(release(0, queued[0]))
					p.expect('N', 0, queued[0])
					p.unlock(p.lock("free", 250), "free")
					if got := int(s.metrics(t)["ticketing_waiters"]); got > limit {
						t.Fatalf("%d waiters, and %d are the limit", got, limit)
					}
				}
				for range 3 { // and once more all around
					for len(queued) < closes {
						enqueue()
					}
					full()
					for len(queued) > opens {
						full()
						key := queued[0]
						queued = queued[1:]
						p.send(release(tokens[key], key))
						rs := p.collect(2)
						if rs[0].op != 'R' {
							rs[0], rs[1] = rs[1], rs[0]
						}
						if !rs[0].is('R', tokens[key], key) || !rs[1].is('A', owners[key], key) {
							t.Fatalf("got %v", rs)
						}
						if len(queued) == 0 {
							break
						}
					}
					enqueue() // open again
				}
			}, fmt.Sprint("MAX_TOTAL_WAITERS=", limit))
		})
	}
}

// TestTotalWaitersComeBack: waiters that time out and waiters whose connection
// ends give their places back.
func TestTotalWaitersComeBack(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for i := range 8 {
			p.lock(fmt.Sprint("k", i), 250)
		}
		for range 2 {
			brief, gone := s.dial(t), s.dial(t)
			for _, q := range []struct {
				p    *peer
				wait byte
			}{{brief, 3}, {gone, 250}} {
				var b []byte
				for i := range 45 {
					b = append(b, acquire(newOwner(), q.wait, 250, fmt.Sprint("k", i%8))...)
				}
				for i := range 8 { // behind the attempts on each key
					b = append(b, release(0, fmt.Sprint("k", i))...)
				}
				q.p.send(b)
				for _, r := range q.p.collect(8) {
					if r.op != 'N' {
						t.Fatalf("got %v", r)
					}
				}
			}
			p.refused('B', 250, "k0")
			gone.refused('B', 250, "k1")
			for _, r := range brief.collect(45) {
				if r.op != 'T' {
					t.Fatalf("got %v", r)
				}
			}
			gone.reset()
			await(t, "no waiter is left", func() bool { return s.metrics(t)["ticketing_waiters"] == 0 })
		}
	}, "MAX_TOTAL_WAITERS=100")
}
