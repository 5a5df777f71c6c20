package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// punctual checks that an answer due a while after a request is neither early
// nor late. The request was written between sent and wrote: the time runs from
// a moment after sent at the soonest, and from the one the server read the
// request at the latest, which no one here can see; the slack covers it.
func (s *server) punctual(what string, sent, wrote time.Time, after time.Duration, at time.Time) error {
	if early := after - at.Sub(sent); early > 0 {
		return fmt.Errorf("%s: %v early", what, early)
	}
	return s.onTime(what, wrote.Add(after), at)
}

// onTime checks that an answer is not later than it may be, and keeps the
// greatest lateness for the log.
func (s *server) onTime(what string, due, at time.Time) error {
	late := at.Sub(due)
	for old := s.latest.Load(); int64(late) > old && !s.latest.CompareAndSwap(old, int64(late)); old = s.latest.Load() {
	}
	if late <= grace {
		return nil
	}
	if most := s.slack(due); late > most {
		return fmt.Errorf("%s: %v late, %v allowed", what, late, most)
	}
	return nil
}

// timedWrite writes and says between which moments.
func (p *peer) timedWrite(b []byte) (sent, wrote time.Time, err error) {
	sent = time.Now()
	err = p.write(b)
	return sent, time.Now(), err
}

// TestWaitRunsOut: T comes when the wait ends, not before it and at most 10 ms
// after (§3.6). Many attempts on many keys wait at the same time.
func TestWaitRunsOut(t *testing.T) {
	const clients, attempts = 12, 20
	onLoopsAlone(t, func(t *testing.T, s *server) {
		s.watchStarvation(t)
		holder := s.dial(t)
		for i := range 7 {
			holder.lock(fmt.Sprint("k", i), 250)
		}
		together(t, clients, func(i int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			type attempt struct {
				key         string
				wait        byte
				sent, wrote time.Time
			}
			out := map[uint64]attempt{}
			for j := range attempts {
				o, a := newOwner(), attempt{key: fmt.Sprint("k", (i+j)%7), wait: byte(1 + j%3)}
				if a.sent, a.wrote, err = p.timedWrite(acquire(o, a.wait, 1, a.key)); err != nil {
					return err
				}
				out[o] = a
				time.Sleep(time.Duration(i+j) * 300 * time.Microsecond) // spread the deadlines
			}
			for len(out) > 0 {
				r, err := p.next()
				if err != nil {
					return err
				}
				a, ok := out[r.owner]
				delete(out, r.owner)
				if !ok || !r.is('T', r.owner, a.key) {
					return fmt.Errorf("got %v", r)
				}
				what := fmt.Sprintf("T after %d s", a.wait)
				if err := s.punctual(what, a.sent, a.wrote, time.Duration(a.wait)*time.Second, r.at); err != nil {
					return err
				}
			}
			return nil
		})
		holder.quiet()
		t.Logf("the latest was %v late", time.Duration(s.latest.Load()))
	})
}

// TestLeaseEnds: a lease never ends early, and the first waiter is granted
// within 10 ms after it ends (§3.6). Three in a row on each key, each with a
// lease of its own.
func TestLeaseEnds(t *testing.T) {
	const keys = 60
	leases := [4]byte{2, 1, 2, 250} // in seconds
	onLoopsAlone(t, func(t *testing.T, s *server) {
		s.watchStarvation(t)
		together(t, keys, func(i int) error {
			time.Sleep(time.Duration(i) * 3 * time.Millisecond) // spread the deadlines
			key := fmt.Sprint("lease", i)
			var ps [4]*peer
			var err error
			for j := range ps {
				if ps[j], err = s.tryDial(t, 0); err != nil {
					return err
				}
				defer ps[j].close()
			}
			const first = 100
			sent, _, err := ps[0].timedWrite(acquire(first, 0, leases[0], key))
			if err != nil {
				return err
			}
			r, err := ps[0].want('A', first, key)
			if err != nil {
				return err
			}
			for j := 1; j < len(ps); j++ { // queued one after another
				if err := ps[j].write(acquire(first+uint64(j), 30, leases[j], key), release(0, key)); err != nil {
					return err
				}
				if _, err := ps[j].want('N', 0, key); err != nil {
					return err
				}
			}
			for j := 1; j < len(ps); j++ {
				last := r
				if r, err = ps[j].want('A', first+uint64(j), key); err != nil {
					return err
				}
				if r.token <= last.token {
					return fmt.Errorf("token %d after %d", r.token, last.token)
				}
				// The lease began when the server granted: before its reply
				// was here, and after the previous lease's end at the soonest.
				lease := time.Duration(leases[j-1]) * time.Second
				sent = sent.Add(lease)
				if r.at.Before(sent) {
					return fmt.Errorf("grant %d: %v early", j, sent.Sub(r.at))
				}
				due := last.at.Add(lease)
				if err := s.onTime(fmt.Sprint("grant ", j), due, r.at); err != nil {
					return err
				}
				// The stale token releases nothing.
				if err := ps[0].write(release(last.token, key)); err != nil {
					return err
				}
				if _, err := ps[0].want('N', last.token, key); err != nil {
					return err
				}
			}
			return nil
		})
		t.Logf("the latest was %v late", time.Duration(s.latest.Load()))
	})
}

// TestLeaseEndIsExact walks over the end of idle leases: until a second after
// the acquire was sent the key is held, and from a second after its grant had
// arrived it is free. No sweep and no queue helps.
func TestLeaseEndIsExact(t *testing.T) {
	const keys = 80
	onLoopsAlone(t, func(t *testing.T, s *server) {
		var mu sync.Mutex
		seen := map[byte]int{}
		together(t, keys, func(i int) error {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			defer p.close()
			key, o := fmt.Sprint("exact", i), newOwner()
			sent, _, err := p.timedWrite(acquire(o, 0, 1, key))
			if err != nil {
				return err
			}
			r, err := p.want('A', o, key)
			if err != nil {
				return err
			}
			if i%2 == 0 { // a release at once behind the end
				time.Sleep(time.Until(r.at.Add(time.Second)))
				if err := p.write(release(r.token, key), acquire(o, byte(i%4), 1, key)); err != nil {
					return err
				}
				for range 2 {
					got, err := p.next()
					if err != nil || !got.is('N', r.token, key) && !(got.is('A', o, key) && got.token > r.token) {
						return fmt.Errorf("behind the lease's end: got %v, %v", got, err)
					}
				}
				return nil
			}
			time.Sleep(time.Until(sent.Add(970 * time.Millisecond)))
			for { // attempts all the time
				begin := time.Now()
				if err := p.write(acquire(o, 0, 1, key)); err != nil {
					return err
				}
				got, err := p.next()
				mu.Lock()
				seen[got.op]++
				mu.Unlock()
				switch {
				case err != nil:
					return err
				case got.is('A', o, key) && got.at.Before(sent.Add(time.Second)):
					return fmt.Errorf("granted %v before the lease's end", sent.Add(time.Second).Sub(got.at))
				case got.is('A', o, key):
					return nil
				case !got.is('T', o, key):
					return fmt.Errorf("got %v", got)
				case begin.After(r.at.Add(time.Second)):
					return fmt.Errorf("held %v after the lease's end", begin.Sub(r.at.Add(time.Second)))
				}
			}
		})
		if seen['T'] == 0 {
			t.Error("no attempt was made before a lease's end: the test saw nothing")
		}
	})
}

// TestLeaseEndWithQueue: around the end of a lease with a waiter, attempts
// with wait 0 get T all the time (§10): the head is granted.
func TestLeaseEndWithQueue(t *testing.T) {
	const keys = 24
	onLoopsAlone(t, func(t *testing.T, s *server) {
		together(t, keys, func(i int) error {
			var ps [3]*peer
			var err error
			for j := range ps {
				if ps[j], err = s.tryDial(t, 0); err != nil {
					return err
				}
				defer ps[j].close()
			}
			key := fmt.Sprint("k", i)
			const holder, head, newcomer = 1, 2, 3
			if err := ps[0].write(acquire(holder, 0, 1, key)); err != nil {
				return err
			}
			r, err := ps[0].want('A', holder, key)
			if err != nil {
				return err
			}
			if err := ps[1].write(acquire(head, 60, 250, key)); err != nil {
				return err
			}
			time.Sleep(time.Until(r.at.Add(950 * time.Millisecond)))
			for time.Since(r.at) < 1100*time.Millisecond {
				if err := ps[2].write(acquire(newcomer, 0, 250, key), acquire(newcomer, 0, 250, key)); err != nil {
					return err
				}
				for range 2 {
					if _, err := ps[2].want('T', newcomer, key); err != nil {
						return fmt.Errorf("newcomer: %w", err)
					}
				}
			}
			_, err = ps[1].want('A', head, key)
			return err
		})
	})
}

// TestTimeoutsLeaveTheOrder: attempts whose wait ran out are gone from the
// middle of a queue; the others keep their order and get no T. A long wait and
// a long lease do not end.
func TestTimeoutsLeaveTheOrder(t *testing.T) {
	const n = 90
	onLoopsParallel(t, func(t *testing.T, s *server) {
		holder, peers, short := s.dial(t), s.dials(t, 7), s.dial(t)
		token := holder.lock("k", 250)
		var want []uint64
		soon := map[uint64]bool{}
		// timedOut reads a reply of the attempts that wait briefly.
		timedOut := func() bool {
			t.Helper()
			r, err := short.next()
			if err == nil && r.is('N', 0, "k") {
				return false
			}
			if err != nil || !r.is('T', r.owner, "k") || !soon[r.owner] {
				t.Fatalf("got %v, %v", r, err)
			}
			delete(soon, r.owner)
			return true
		}
		for i := range n {
			if i%3 == 1 {
				want = append(want, peers[i%len(peers)].queue(255, 250, "k"))
				continue
			}
			o := newOwner()
			soon[o] = true
			short.send(acquire(o, byte(1+i%2), 250, "k"), release(0, "k"))
			for timedOut() {
			}
		}
		for len(soon) > 0 {
			timedOut()
		}
		holder.unlock(token, "k")
		sameOrder(t, drainQueue(t, peers, "k", len(want)), want)
	})
}
