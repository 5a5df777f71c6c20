package e2e

import (
	"fmt"
	"testing"
)

// drainQueue takes each grant of the key on the connection that waited for it,
// and releases it there, until n were granted. It returns their owners in the
// order of the grants.
func drainQueue(t *testing.T, peers []*peer, key string, n int) []uint64 {
	t.Helper()
	grants := make(chan reply, n)
	fail := make(chan error, len(peers))
	for _, p := range peers {
		go func() {
			for {
				r, err := p.next()
				switch {
				case err != nil:
					fail <- err
					return
				case r.op == 'A' && r.text == key:
					grants <- r
					if err := p.write(release(r.token, key)); err != nil {
						fail <- err
						return
					}
				case r.op != 'R' || r.text != key:
					fail <- fmt.Errorf("got %v", r)
					return
				}
			}
		}()
	}
	var order []uint64
	var last uint64
	for len(order) < n {
		select {
		case r := <-grants:
			if r.token <= last {
				t.Fatalf("token %d was granted after %d", r.token, last)
			}
			last = r.token
			order = append(order, r.owner)
		case err := <-fail:
			t.Fatalf("after %d of %d grants: %v", len(order), n, err)
		}
	}
	return order
}

func sameOrder(t *testing.T, got, want []uint64) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("grant %d went to %#x, want %#x", i, got[i], want[i])
		}
	}
}

// TestFIFO queues hundreds of attempts on one key from connections of every
// loop and wants them granted in exactly that order.
func TestFIFO(t *testing.T) {
	const n = 400
	onLoops(t, func(t *testing.T, s *server) {
		holder, peers := s.dial(t), s.dials(t, 23)
		token := holder.lock("fifo", 250)
		var want []uint64
		for i := range n {
			want = append(want, peers[i*i%len(peers)].queue(250, 250, "fifo"))
		}
		holder.unlock(token, "fifo")
		sameOrder(t, drainQueue(t, peers, "fifo", n), want)
	})
}

// TestFIFOPipelined queues hundreds of attempts of one connection in one
// write.
func TestFIFOPipelined(t *testing.T) {
	const n = 400
	onLoops(t, func(t *testing.T, s *server) {
		holder, p := s.dial(t), s.dial(t)
		for _, key := range []string{"a", "b", "c", "d"} { // on different loops
			token := holder.lock(key, 250)
			var want []uint64
			var b []byte
			for range n {
				want = append(want, newOwner())
				b = append(b, acquire(want[len(want)-1], 250, 250, key)...)
			}
			p.send(b, release(0, key))
			p.expect('N', 0, key)
			holder.unlock(token, key)
			got := make([]uint64, 0, n)
			for range n {
				r, err := p.next()
				if err != nil || r.op != 'A' {
					t.Fatalf("got %v, %v", r, err)
				}
				got = append(got, r.owner)
				holder.unlock(r.token, key)
			}
			sameOrder(t, got, want)
		}
	})
}

// TestNewcomerNeverOvertakes: while a key has a queue, an attempt with wait 0
// gets T, in the instant of each hand-over too (§3.8).
func TestNewcomerNeverOvertakes(t *testing.T) {
	const n = 300
	onLoops(t, func(t *testing.T, s *server) {
		holder, waiting := s.dial(t), s.dials(t, 8)
		token := holder.lock("k", 250)
		for i := range n {
			waiting[i%len(waiting)].queue(250, 250, "k")
		}
		last := s.dial(t)
		lastOwner := last.queue(250, 250, "k") // keeps the key when it gets it
		stop := make(chan struct{})
		tried := make(chan error, 4)
		for range cap(tried) {
			p := s.dial(t)
			go func() {
				for {
					select {
					case <-stop:
						tried <- nil
						return
					default:
					}
					o := newOwner()
					if err := p.write(acquire(o, 0, 250, "k"), acquire(o, 0, 250, "k")); err != nil {
						tried <- err
						return
					}
					for range 2 {
						if _, err := p.want('T', o, "k"); err != nil {
							tried <- fmt.Errorf("newcomer: %w", err)
							return
						}
					}
				}
			}()
		}
		holder.unlock(token, "k")
		drainQueue(t, waiting, "k", n)
		last.expect('A', lastOwner, "k")
		close(stop)
		for range cap(tried) {
			if err := <-tried; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQueuesAreApart: each key has a queue of its own, and a hand-over touches
// no other key.
func TestQueuesAreApart(t *testing.T) {
	const n = 64
	onLoops(t, func(t *testing.T, s *server) {
		holder, p := s.dial(t), s.dial(t)
		tokens, owners := make([]uint64, n), make([]uint64, n)
		for i := range n {
			key := fmt.Sprint("k", i)
			tokens[i] = holder.lock(key, 250)
			owners[i] = p.queue(250, 250, key)
		}
		for i := n - 1; i >= 0; i-- {
			key := fmt.Sprint("k", i)
			holder.unlock(tokens[i], key)
			if got := p.expect('A', owners[i], key).token; got <= tokens[n-1] {
				t.Fatalf("token %d is not above %d", got, tokens[n-1])
			}
		}
	})
}
