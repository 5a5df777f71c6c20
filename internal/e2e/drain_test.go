package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

const shuttingDown = "Eshutting_down\n"

// exitsCleanly wants exit 0 within a time.
func (s *server) exitsCleanly(t testing.TB, within time.Duration) {
	t.Helper()
	begin := time.Now()
	if code := s.exit(t, within+slack(begin)); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
}

// TestDrainEndsWaiters: after SIGTERM or SIGINT each queued attempt ends with
// E shutting_down, and the server ends by itself, long before its drain time.
func TestDrainEndsWaiters(t *testing.T) {
	const clients = 60
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			onLoops(t, func(t *testing.T, s *server) {
				holder := s.dial(t)
				for i := range 9 {
					holder.lock(fmt.Sprint("k", i), 250)
				}
				waiting, idle := s.dials(t, clients), s.dials(t, 10)
				for i, p := range waiting {
					p.queue(250, 250, fmt.Sprint("k", i%9))
					p.queue(250, 250, fmt.Sprint("k", i%5)) // one E, however many attempts
				}
				cutIn := s.dial(t)
				cutIn.send([]byte("A\x0a")) // in the middle of a frame
				s.pace(t)
				s.signal(t, sig)
				for _, p := range waiting {
					p.ends(shuttingDown)
				}
				for _, p := range append(idle, holder, cutIn) {
					if b, err := p.rest(); err != nil || string(b) != "" && string(b) != shuttingDown {
						t.Errorf("an idle client got %q, %v", b, err)
					}
				}
				s.exitsCleanly(t, 5*time.Second)
			})
		})
	}
}

// TestDrainWithNobody: an idle server ends at once.
func TestDrainWithNobody(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		s.dial(t).quiet()
		s.signal(t, syscall.SIGTERM)
		s.exitsCleanly(t, 3*time.Second)
		if c, err := net.Dial("tcp", s.addr); err == nil {
			c.Close()
			t.Error("the port is still open")
		}
	})
	s := start(t, "DRAIN_TIMEOUT=0s")
	p := s.dial(t)
	p.lock("k", 250)
	p.queue(250, 250, "k")
	s.signal(t, syscall.SIGTERM)
	s.exitsCleanly(t, 2*time.Second)
}

// TestDrainDeliversDecided: what was decided before the signal arrives, and
// then the end.
func TestDrainDeliversDecided(t *testing.T) {
	const clients, n = 20, 200
	onLoops(t, func(t *testing.T, s *server) {
		peers := s.dials(t, clients)
		for i, p := range peers {
			var b []byte
			for j := range n {
				b = append(b, acquire(uint64(j), 0, 250, fmt.Sprint("k", i, "-", j))...)
			}
			p.send(b, acquire(n, 250, 250, fmt.Sprint("k", i, "-0")))
		}
		await(t, "all are granted", func() bool {
			m := s.metrics(t)
			return m[`ticketing_acquires_total{result="granted"}`] == clients*n && m["ticketing_waiters"] == clients
		})
		s.signal(t, syscall.SIGTERM)
		for i, p := range peers {
			for range n {
				r, err := p.next()
				if err != nil || !r.is('A', r.owner, fmt.Sprint("k", i, "-", r.owner)) {
					t.Fatalf("got %v, %v", r, err)
				}
			}
			p.ends(shuttingDown)
		}
		s.exitsCleanly(t, 5*time.Second)
	})
}

// TestDrainInFlight: pairs hand a lock to and fro while the signal comes. When
// one side was granted, the other's release was executed: it must have been
// told before its E, which says that nothing unanswered was executed.
func TestDrainInFlight(t *testing.T) {
	const pairs = 24
	onLoops(t, func(t *testing.T, s *server) {
		type side struct {
			granted  []uint64
			answered map[uint64]bool
			sent     map[uint64]bool
			end      string
			err      error
		}
		sides := make([]side, 2*pairs)
		done := make(chan int, 2*pairs)
		started := make(chan struct{}, 2*pairs)
		for i := range sides {
			p := s.dial(t)
			go func() {
				me, key := &sides[i], fmt.Sprint("pair", i/2)
				me.answered, me.sent = map[uint64]bool{}, map[uint64]bool{}
				defer func() { done <- i }()
				if me.err = p.write(acquire(newOwner(), 250, 250, key)); me.err != nil {
					return
				}
				for {
					r, err := p.next()
					switch {
					case err != nil:
						me.err = err
						return
					case r.op == 'E':
						me.end = r.text
						_, me.err = p.rest()
						return
					case r.op == 'R':
						me.answered[r.token] = true
					case r.op == 'A':
						if me.granted = append(me.granted, r.token); len(me.granted) == 5 {
							started <- struct{}{}
						}
						// Queue again behind the other side, and let go.
						me.sent[r.token] = true
						if err := p.write(acquire(newOwner(), 250, 250, key), release(r.token, key)); err != nil {
							me.err = err
							return
						}
					default:
						me.err = fmt.Errorf("got %v", r)
						return
					}
				}
			}()
		}
		for range sides {
			<-started
		}
		s.signal(t, syscall.SIGTERM)
		for range sides {
			<-done
		}
		for i := range sides {
			me, other := &sides[i], &sides[i^1]
			if me.err != nil {
				t.Errorf("side %d: %v", i, me.err)
			}
			if me.end != "shutting_down" {
				t.Errorf("side %d ended with E%s", i, me.end)
			}
			if len(me.granted) == 0 || len(other.granted) == 0 {
				continue
			}
			// The grant before my last one was released, by me or by the other.
			last, before := me.granted[len(me.granted)-1], uint64(0)
			for _, from := range []*side{me, other} {
				for _, token := range from.granted {
					if token < last {
						before = max(before, token)
					}
				}
			}
			for _, from := range []*side{me, other} {
				if from.sent[before] && !from.answered[before] {
					t.Errorf("side %d was granted %d; the release of %d was executed and not answered", i, last, before)
				}
			}
		}
		s.exitsCleanly(t, 5*time.Second)
	})
}

// TestDrainUnderLoad sends requests on end while the signal comes: every
// client gets whole frames, then E shutting_down, then the end.
func TestDrainUnderLoad(t *testing.T) {
	const clients, depth = 16, 32
	onLoops(t, func(t *testing.T, s *server) {
		going := make(chan struct{}, clients)
		finished := make(chan error, clients)
		for i := range clients {
			p := s.dial(t)
			go func() {
				finished <- func() error {
					for round := 0; ; round++ {
						var b []byte
						for j := range depth {
							b = append(b, acquire(uint64(j), 0, 1, fmt.Sprintf("%d-%d-%d", i, round, j))...)
						}
						if err := p.write(b); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
							return err
						}
						for range depth {
							r, err := p.next()
							if err != nil {
								return fmt.Errorf("ended without E: %w", err)
							}
							if r.op == 'E' && r.text == "shutting_down" {
								return p.wantEnd("")
							}
							if r.op != 'A' {
								return fmt.Errorf("got %v", r)
							}
						}
						if round == 3 {
							going <- struct{}{}
						}
					}
				}()
			}()
		}
		for range clients {
			<-going
		}
		s.signal(t, syscall.SIGTERM)
		for range clients {
			if err := <-finished; err != nil {
				t.Error(err)
			}
		}
		s.exitsCleanly(t, 5*time.Second)
	})
}

// TestDrainIsBounded: clients that read nothing hold the drain up until
// DRAIN_TIMEOUT and no longer. Meanwhile /readyz is 503 and nobody gets in;
// others have their end at once.
func TestDrainIsBounded(t *testing.T) {
	const drain = 3 * time.Second
	onLoopsParallel(t, func(t *testing.T, s *server) {
		deaf, err := s.tryDial(t, 4096)
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.close()
		s.clog(t, deaf, release(1, text(128)), 138, 0)
		p := s.dial(t)
		p.lock("k", 250)
		p.queue(250, 250, "k")
		if status, _ := s.get(t, "/readyz"); status != 200 {
			t.Fatalf("/readyz is %d", status)
		}
		begin := time.Now()
		s.signal(t, syscall.SIGTERM)
		p.ends(shuttingDown)
		if d := time.Since(begin); d > time.Second+slack(begin) {
			t.Errorf("a waiter had its end only after %v", d)
		}
		ready := 0
		for s.alive() {
			status, _, err := s.tryGet("/readyz")
			if err != nil {
				break // it has gone
			}
			if status != 503 {
				t.Errorf("/readyz is %d in the drain", status)
			}
			ready++
			if q, err := s.tryDial(t, 0); err == nil {
				if b, _ := io.ReadAll(q.conn); len(b) > 0 {
					t.Errorf("a newcomer got %q in the drain", b)
				}
				q.close()
			}
			time.Sleep(50 * time.Millisecond)
		}
		s.exitsCleanly(t, drain)
		d := time.Since(begin)
		t.Logf("the drain took %v; /readyz was 503 %d times", d, ready)
		if d > drain+500*time.Millisecond+slack(begin.Add(drain)) {
			t.Error("that is longer than DRAIN_TIMEOUT")
		}
	}, fmt.Sprint("DRAIN_TIMEOUT=", drain))
}

// TestDrainWaitsForReaders: a client that begins to read in the drain gets
// everything that was decided, and the server ends when it has it.
func TestDrainWaitsForReaders(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		slow, err := s.tryDial(t, 4096)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.close()
		key := text(128)
		replies, _ := s.clog(t, slow, release(1, key), 138, 0)
		s.signal(t, syscall.SIGTERM)
		time.Sleep(1500 * time.Millisecond)
		for i := range replies {
			r, err := slow.next()
			if err != nil || !r.is('N', 1, key) {
				t.Fatalf("reply %d of %d: got %v, %v", i+1, replies, r, err)
			}
		}
		if b, err := slow.rest(); err != nil || string(b) != "" && string(b) != shuttingDown {
			t.Errorf("got %q, %v", b, err)
		}
		s.exitsCleanly(t, 3*time.Second)
	}, "DRAIN_TIMEOUT=20s")
}
