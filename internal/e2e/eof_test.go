package e2e

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"
)

// TestCutFrames ends the stream inside a frame, at every place (§1.6).
func TestCutFrames(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for name, frame := range map[string][]byte{
			"A":                    acquire(newlines, 10, 10, "key"),
			"A with lease 0":       acquire(newlines, 10, 0, "key"),
			"A with a bad key":     acquire(1, 10, 0, "k \xff"),
			"R":                    release(newlines, "key"),
			"A of the longest key": acquire(1, 1, 1, text(128)),
		} {
			peers := s.dials(t, len(frame))
			for i, p := range peers {
				p.send(frame[:i])
				if i%2 == 1 { // both: the EOF with the bytes, and after them
					s.pace(t)
				}
				p.closeWrite()
			}
			for i, p := range peers {
				want := "Ebad_request\n"
				if i == 0 {
					want = "" // an end between frames is no error
				}
				if err := p.wantEnd(want); err != nil {
					t.Errorf("%s cut at %d: %v", name, i, err)
				}
				p.close()
			}
		}
	})
}

// TestCutBehindGoodFrames wants the answers of the whole frames, then the
// error of the cut one.
func TestCutBehindGoodFrames(t *testing.T) {
	const n = 40
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		var b []byte
		for i := range n {
			b = append(b, acquire(uint64(i), 0, 30, fmt.Sprint("k", i))...)
		}
		p.send(b, []byte("R"))
		p.closeWrite()
		seen := map[uint64]bool{}
		for _, r := range p.collect(n) {
			if !r.is('A', r.owner, fmt.Sprint("k", r.owner)) || seen[r.owner] {
				t.Fatalf("got %v", r)
			}
			seen[r.owner] = true
		}
		p.ends("Ebad_request\n")
	})
}

// TestHalfClose sends requests and shuts the sending side down in the same
// breath. Everything that was decided must still arrive, from every loop.
func TestHalfClose(t *testing.T) {
	const n = 60
	const stale = 1 << 50 // tokens nothing holds
	onLoops(t, func(t *testing.T, s *server) {
		holder := s.dial(t)
		holder.lock("held", 250)
		for round := range 20 {
			p := s.dial(t)
			var b []byte
			for i := range n {
				b = append(b, acquire(uint64(i), 0, 250, fmt.Sprint("k", round, "-", i))...)
				b = append(b, release(stale+uint64(i), "held")...)
			}
			p.send(b)
			p.closeWrite()
			granted, denied := map[uint64]bool{}, map[uint64]bool{}
			for _, r := range p.collect(2 * n) {
				switch {
				case r.is('A', r.owner, fmt.Sprint("k", round, "-", r.owner)):
					granted[r.owner] = true
				case r.is('N', r.token, "held"):
					denied[r.token-stale] = true
				default:
					t.Fatalf("got %v", r)
				}
			}
			if len(granted) != n || len(denied) != n {
				t.Fatalf("%d grants and %d refusals, want %d each", len(granted), len(denied), n)
			}
			p.ends("")
			p.close()
		}
		holder.quiet()
	})
}

// TestHalfCloseEndsWaiting: the end of the stream is the connection's end
// (§3.7). What it had queued goes; it is answered neither A nor T.
func TestHalfCloseEndsWaiting(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		holder, next := s.dial(t), s.dial(t)
		token := holder.lock("k", 250)
		gone := s.dial(t)
		gone.queue(250, 250, "k")
		o := next.queue(250, 250, "k")
		await(t, "both wait", func() bool { return s.metrics(t)["ticketing_waiters"] == 2 })
		before := time.Now()
		gone.closeWrite()
		gone.ends("")
		if d := time.Since(before); d > 5*time.Second {
			t.Errorf("the half-closed connection lasted %v", d)
		}
		await(t, "one waiter is left", func() bool { return s.metrics(t)["ticketing_waiters"] == 1 })
		holder.unlock(token, "k")
		next.expect('A', o, "k")
	})
}

// TestErrorIsLast: frames behind an error are not executed, and the waiting
// attempts of the connection are gone (§6).
func TestErrorIsLast(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		holder, next := s.dial(t), s.dial(t)
		token := holder.lock("held", 250)
		for i := range 50 {
			before, behind := fmt.Sprint("before", i), fmt.Sprint("behind", i)
			bad := s.dial(t)
			bad.queue(250, 250, "held")
			o := newOwner()
			bad.send(acquire(o, 0, 30, before), []byte("?"), acquire(newOwner(), 0, 30, behind),
				release(token, "held"), acquire(newOwner(), 9, 0, "k"), []byte("R"))
			bad.expect('A', o, before)
			bad.ends("Ebad_op\n")
			next.lock(behind, 30)
			next.refused('T', 0, before)
			next.refused('T', 0, "held")
		}
		await(t, "no waiter is left", func() bool { return s.metrics(t)["ticketing_waiters"] == 0 })
		o := next.queue(250, 250, "held")
		holder.unlock(token, "held")
		next.expect('A', o, "held")
	})
}

// TestErrorAnswersWhatCameBefore: requests in front of the bad frame are
// executed, so their answers come before E although other loops decide them.
func TestErrorAnswersWhatCameBefore(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for round := range 20 {
			var b []byte
			n := 100
			for i := range n {
				b = append(b, acquire(uint64(i), 0, 30, fmt.Sprint("k", round, "-", i))...)
			}
			if round%2 == 1 { // as many as fit in a read of 4096 bytes
				b, n = nil, 330
				for i := range n {
					b = append(b, release(0, fmt.Sprintf("%02x", i%256))...)
				}
			}
			p := s.dial(t)
			p.send(b, acquire(1, 0, 0, "k"))
			for i, r := range p.collect(n) {
				if r.op != 'A' && r.op != 'N' {
					t.Fatalf("answer %d of %d is %v", i, n, r)
				}
			}
			p.ends("Ebad_lease\n")
			p.close()
		}
	})
}

// TestErrorReadableUnderGarbage: up to 64 KiB behind the bad frame are
// swallowed so that no RST overtakes the error.
func TestErrorReadableUnderGarbage(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for _, size := range []int{1, 100, 4095, 4096, 4097, 20_000, 64 << 10} {
			for name, garbage := range map[string][]byte{
				"bytes":   bytes.Repeat([]byte{'x'}, size),
				"newline": bytes.Repeat([]byte{'\n'}, size),
				"frames":  bytes.Repeat(acquire(1, 0, 30, "garbage"), size/19+1)[:size],
			} {
				peers := s.dials(t, 8)
				for i, p := range peers {
					if i%2 == 0 {
						p.send([]byte("!"), garbage)
						continue
					}
					p.send([]byte("!"))
					for g := garbage; len(g) > 0; { // and in pieces
						n := min(len(g), 3000)
						p.send(g[:n])
						g = g[n:]
					}
				}
				for _, p := range peers {
					if err := p.wantEnd("Ebad_op\n"); err != nil {
						t.Errorf("%d of garbage (%s): %v", size, name, err)
					}
					p.close()
				}
			}
		}
		s.dial(t).lock("garbage", 30) // nothing of it ran
	})
}

// TestErrorCloses: the server waits neither for a client that keeps its side
// open and silent, nor for one that writes on and on.
func TestErrorCloses(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		silent := s.dial(t)
		silent.send([]byte("?"))
		silent.ends("Ebad_op\n")
		await(t, "the silent client's connection is closed", func() bool {
			return s.metrics(t)["ticketing_connections"] == 0
		})
		endless := s.dial(t)
		endless.send([]byte("?"))
		block, sent := make([]byte, 64<<10), 0
		begin := time.Now()
		for time.Since(begin) < patience {
			endless.conn.SetWriteDeadline(time.Now().Add(patience))
			n, err := endless.conn.Write(block)
			if sent += n; err != nil {
				break
			}
		}
		if d := time.Since(begin); d > 5*time.Second || sent > 16<<20 {
			t.Errorf("after an error the server took %d bytes for %v", sent, d)
		}
		await(t, "its connection is closed", func() bool { return s.metrics(t)["ticketing_connections"] == 0 })
	})
}

// TestErrorCloseIsGraceful: the client may take its time to read. E and the
// end are there when it comes, even after the server has closed.
func TestErrorCloseIsGraceful(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		p.send([]byte("?"))
		await(t, "the connection is closed", func() bool { return s.metrics(t)["ticketing_connections"] == 0 })
		p.ends("Ebad_op\n")
		if _, err := p.conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the end: %v", err)
		}
	})
}
