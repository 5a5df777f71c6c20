package e2e

import (
	"fmt"
	"testing"
)

// TestOrderOfOneConnection: requests of one connection on one key are judged
// in the order sent, whichever loops carry them (§4.4). Frames for many keys
// are mixed in one write.
func TestOrderOfOneConnection(t *testing.T) {
	const keys, rounds = 48, 25
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		held := make([]uint64, keys)
		key := func(i int) string { return fmt.Sprint("order", i) }
		for i := range held {
			held[i] = p.lock(key(i), 250)
		}
		for round := range rounds {
			// Held: T. Released: R. Free: A. Held again: T. The old token: N.
			script := []string{"T", "R", "A", "T", "N", "T"}
			var b []byte
			owners := map[uint64]int{} // owner → key*16 + step
			for step := range script {
				for i := range held {
					o := newOwner()
					switch script[step] {
					case "R", "N":
						b = append(b, release(held[i], key(i))...)
					default:
						owners[o] = i*16 + step
						b = append(b, acquire(o, 0, 250, key(i))...)
					}
				}
			}
			go p.write(b)
			released := make([]string, keys)
			next := make([]uint64, keys)
			for _, r := range p.collect(keys * len(script)) {
				if r.op == 'R' || r.op == 'N' {
					var i int
					fmt.Sscanf(r.text, "order%d", &i)
					if r.text != key(i) || r.token != held[i] {
						t.Fatalf("round %d: got %v", round, r)
					}
					released[i] += string(r.op)
					continue
				}
				where, ok := owners[r.owner]
				delete(owners, r.owner)
				i, step := where/16, where%16
				if !ok || r.text != key(i) || string(r.op) != script[step] {
					t.Fatalf("round %d, step %d: got %v, want %s", round, step, r, script[step])
				}
				if r.op == 'A' {
					if next[i] = r.token; r.token <= held[i] {
						t.Fatalf("token %d after %d", r.token, held[i])
					}
				}
			}
			for i := range held {
				if released[i] != "RN" && released[i] != "NR" {
					t.Fatalf("round %d, key %d: releases got %q", round, i, released[i])
				}
				held[i] = next[i]
			}
		}
	})
}

// TestOneKeyPipelined: of thousands of attempts on one free key in one write
// the first sent gets it.
func TestOneKeyPipelined(t *testing.T) {
	const n = 3000
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			var b []byte
			first := newOwner()
			b = append(b, acquire(first, 0, 250, key)...)
			for range n {
				b = append(b, acquire(newOwner(), 0, 250, key)...)
			}
			go p.write(b)
			for _, r := range p.collect(n + 1) {
				if want := byte('T'); r.owner == first {
					want = 'A'
					if r.op != want {
						t.Fatalf("the first sent got %v", r)
					}
				} else if r.op != want {
					t.Fatalf("a later one got %v", r)
				}
			}
		}
	})
}

// TestReleaseThenAcquire sends a release and attempts behind it in one packet:
// the attempt finds the key free.
func TestReleaseThenAcquire(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for i := range 200 {
			key := fmt.Sprint("k", i%9)
			token := p.lock(key, 250)
			now, never, queued := newOwner(), newOwner(), newOwner()
			p.send(release(token, key), acquire(now, byte(i%2*9), 250, key), acquire(never, 0, 250, key),
				acquire(queued, 250, 250, key), release(token, key))
			var second uint64
			for _, r := range p.collect(4) {
				switch {
				case r.is('A', now, key):
					second = r.token
				case r.is('T', never, key), r.is('R', token, key), r.is('N', token, key):
				default:
					t.Fatalf("got %v", r)
				}
			}
			// Queue, then release with the packet: handed over to itself.
			p.send(acquire(never, 250, 250, key), release(second, key))
			third := uint64(0)
			for _, r := range p.collect(2) {
				switch {
				case r.is('A', queued, key):
					third = r.token
				case r.is('R', second, key):
				default:
					t.Fatalf("got %v", r)
				}
			}
			p.unlock2(third, key, never)
		}
	})
}

// unlock2 releases a key twice over: its first waiter is this connection.
func (p *peer) unlock2(token uint64, key string, waiter uint64) {
	p.t.Helper()
	p.send(release(token, key))
	rs := p.collect(2)
	if rs[0].op != 'R' {
		rs[0], rs[1] = rs[1], rs[0]
	}
	if !rs[0].is('R', token, key) || !rs[1].is('A', waiter, key) {
		p.t.Fatalf("got %v", rs)
	}
	p.unlock(rs[1].token, key)
}
