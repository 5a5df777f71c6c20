package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestReleaseThenLeave: a release is executed though its client sends it as
// its last word and is gone.
func TestReleaseThenLeave(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		q := s.dial(t)
		for i := range 60 {
			key := fmt.Sprint("k", i)
			p := s.dial(t)
			token := p.lock(key, 250)
			o := q.queue(250, 250, key)
			p.send(release(token, key))
			if i%2 == 0 {
				p.close()
			} else {
				p.closeWrite()
			}
			q.expect('A', o, key)
		}
	})
}

// TestAcquireThenLeave: no key is lost for longer than its lease when clients
// are gone before they can have read their grants.
func TestAcquireThenLeave(t *testing.T) {
	const n = 100
	onLoopsParallel(t, func(t *testing.T, s *server) {
		var b []byte
		for i := range n {
			b = append(b, acquire(uint64(i), byte(i%2*9), 1, fmt.Sprint("k", i))...)
		}
		for i := range 6 {
			p := s.dial(t)
			p.send(b)
			if i%2 == 0 {
				p.close()
			} else {
				p.reset()
			}
		}
		s.pace(t) // all of it has been read
		begin := time.Now()
		p := s.dial(t)
		b = b[:0]
		for i := range n {
			b = append(b, acquire(uint64(i), 60, 250, fmt.Sprint("k", i))...)
		}
		p.send(b)
		atOnce := 0
		for range n {
			r, err := p.next()
			if err != nil || !r.is('A', r.owner, fmt.Sprint("k", r.owner)) {
				t.Fatalf("got %v, %v", r, err)
			}
			d := r.at.Sub(begin)
			if d > time.Second+slack(begin) {
				t.Errorf("%s was held for %v", r.text, d)
			}
			if d < 500*time.Millisecond {
				atOnce++
			}
		}
		t.Logf("%d of %d keys were free at once", atOnce, n)
	})
}

// TestDeadlinesMeet: where a lease and the wait of the first in the queue end
// together, each attempt has exactly one outcome, and the key goes on.
func TestDeadlinesMeet(t *testing.T) {
	const keys = 120
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p, q := s.dial(t), s.dial(t)
		var b []byte
		for i := range keys {
			b = append(b, acquire(uint64(i), 0, 1, fmt.Sprint("k", i))...)
		}
		if len(b) > 4096 {
			t.Fatal("the test wants these in one read")
		}
		p.send(b) // the leases begin, and a little later the waits
		for i := range keys {
			b = acquire(uint64(keys+i), 1, 250, fmt.Sprint("k", i))
			p.send(b, acquire(uint64(2*keys+i), 1, 250, fmt.Sprint("k", i)))
		}
		outcome := map[uint64]byte{}
		tokens := map[string]uint64{}
		for range 3 * keys {
			r, err := p.next()
			key := fmt.Sprint("k", r.owner%keys)
			if err != nil || !r.is('A', r.owner, key) && !r.is('T', r.owner, key) || outcome[r.owner] != 0 {
				t.Fatalf("got %v, %v after %c", r, err, outcome[r.owner])
			}
			if outcome[r.owner] = r.op; r.op == 'A' {
				if tokens[key] >= r.token {
					t.Fatalf("%v after token %d", r, tokens[key])
				}
				tokens[key] = r.token
			}
		}
		granted := 0
		for i := range uint64(keys) {
			if outcome[i] != 'A' || outcome[keys+i] == 'T' && outcome[2*keys+i] == 'A' {
				t.Errorf("key %d: %c, %c, %c", i, outcome[i], outcome[keys+i], outcome[2*keys+i])
			}
			key := fmt.Sprint("k", i)
			o := newOwner()
			q.send(acquire(o, 0, 250, key))
			if outcome[keys+i] == 'A' {
				granted++
				q.expect('T', o, key)
				q.unlock(tokens[key], key)
			} else {
				q.expect('A', o, key)
			}
		}
		t.Logf("%d of %d were granted", granted, keys)
		p.quiet()
	})
}

// TestStoppedProcess stops the server for longer than leases and waits last.
// When it goes on, time has passed: whoever still waits is granted, with a
// whole lease from then on, and everyone has one outcome.
func TestStoppedProcess(t *testing.T) {
	const keys = 20
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		key := func(i int) string { return fmt.Sprint("k", i) }
		var b []byte
		for i := range keys {
			b = append(b, acquire(2*keys, 0, 2, key(i))...)
		}
		p.send(b)
		for _, r := range p.collect(keys) {
			if r.op != 'A' {
				t.Fatalf("got %v", r)
			}
		}
		b = b[:0]
		for i := range keys {
			b = append(b, acquire(uint64(i), 2, 1, key(i))...)
			b = append(b, acquire(uint64(keys+i), 60, 2, key(i))...)
		}
		p.send(b)
		begun := s.dial(t)
		begun.send([]byte("R"))
		s.pace(t)
		s.stopFor(t, 3*time.Second)
		resumed := time.Now()
		outcome := map[uint64]int{}
		granted := map[int]reply{}
		for range 2 * keys {
			r, err := p.next()
			if err != nil || !r.is('A', r.owner, key(int(r.owner%keys))) && !r.is('T', r.owner, key(int(r.owner%keys))) {
				t.Fatalf("got %v, %v", r, err)
			}
			if outcome[r.owner]++; outcome[r.owner] > 1 || r.op == 'T' && r.owner >= keys {
				t.Fatalf("got %v", r)
			}
			if r.owner >= keys {
				granted[int(r.owner-keys)] = r
			}
		}
		for i, r := range granted { // a whole lease since the grant, not since the stop
			p.send(acquire(1, 0, 1, key(i)))
			got, err := p.next()
			if err != nil || got.op == 'A' && time.Since(resumed) < 2*time.Second {
				t.Errorf("%s: granted at %v, and again %v after the stop", key(i), r, time.Since(resumed))
			}
		}
		if err := begun.wantEnd("Ebad_request\n"); err != nil {
			t.Error(err)
		}
	})
}
