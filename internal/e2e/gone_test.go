package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The test binary run with this variable is a client that can be killed: it
// queues attempts on a key, says so, and waits for its end.
const (
	mortalAddr = "E2E_MORTAL_ADDR"
	mortalKey  = "E2E_MORTAL_KEY"
)

const mortalAttempts = 5

func mortalMain() int {
	c, err := net.Dial("tcp", os.Getenv(mortalAddr))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	key := os.Getenv(mortalKey)
	var b []byte
	for i := range mortalAttempts {
		b = append(b, acquire(uint64(i), 250, 250, key)...)
	}
	if _, err := c.Write(append(b, release(0, key)...)); err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := (&peer{conn: c.(*net.TCPConn), in: bufio.NewReader(c)}).want('N', 0, key)
	if err != nil {
		fmt.Println(r, err)
		return 1
	}
	fmt.Println("queued")
	io.Copy(io.Discard, os.Stdin) // the end of the test ends it
	return 0
}

// mortal starts such a client and returns the function that kills it.
func (s *server) mortal(t *testing.T, key string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := prepared(exec.Command(self), mortalAddr+"="+s.addr, mortalKey+"="+key)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "queued\n" {
		t.Fatalf("the other process said %q, %v", line, err)
	}
	return func() { cmd.Process.Kill() }
}

// endings are the ways a client leaves. Each returns after it has queued its
// attempts, and leaves when called.
var endings = map[string]func(t *testing.T, s *server, key string) (leave func()){
	"FIN": func(t *testing.T, s *server, key string) func() {
		p := s.dial(t)
		for range mortalAttempts {
			p.queue(250, 250, key)
		}
		return p.close
	},
	"RST": func(t *testing.T, s *server, key string) func() {
		p := s.dial(t)
		for range mortalAttempts {
			p.queue(250, 250, key)
		}
		return p.reset
	},
	"half-close": func(t *testing.T, s *server, key string) func() {
		p := s.dial(t)
		for range mortalAttempts {
			p.queue(250, 250, key)
		}
		return p.closeWrite
	},
	"error": func(t *testing.T, s *server, key string) func() {
		p := s.dial(t)
		for range mortalAttempts {
			p.queue(250, 250, key)
		}
		return func() { p.send([]byte("?")) }
	},
	"SIGKILL": func(t *testing.T, s *server, key string) func() { return s.mortal(t, key) },
}

// TestGoneWaitersAreSkipped: a connection's end removes its attempts, and the
// order of the others stays (§3.7).
func TestGoneWaitersAreSkipped(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for how, join := range endings {
			holder, a, b := s.dial(t), s.dial(t), s.dial(t)
			token := holder.lock(how, 250)
			leave := []func(){join(t, s, how)}
			first := a.queue(250, 250, how)
			leave = append(leave, join(t, s, how), join(t, s, how))
			second := b.queue(250, 250, how)
			third := a.queue(250, 250, how)
			leave = append(leave, join(t, s, how))
			await(t, how+": all stand in the queue", func() bool {
				return s.metrics(t)["ticketing_waiters"] == float64(3+mortalAttempts*len(leave))
			})
			for _, f := range leave {
				f()
			}
			await(t, how+": the others are left", func() bool { return s.metrics(t)["ticketing_waiters"] == 3 })
			holder.unlock(token, how)
			token = a.expect('A', first, how).token
			holder.unlock(token, how)
			token = b.expect('A', second, how).token
			holder.unlock(token, how)
			token = a.expect('A', third, how).token
			holder.unlock(token, how)
			holder.lock(how, 30)
		}
	})
}

// TestGoneWaiterMakesRoom: the place of a removed attempt is free at once,
// also while the connection's end still lingers.
func TestGoneWaiterMakesRoom(t *testing.T) {
	const atOnce = 500 * time.Millisecond // half of what an end may linger
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for i := range 4 { // on different loops
			p.lock(fmt.Sprint("k", i), 250)
		}
		for how, leave := range map[string]func(p *peer){
			"FIN":        (*peer).close,
			"RST":        (*peer).reset,
			"half-close": (*peer).closeWrite,
			"error":      func(p *peer) { p.send([]byte("?")); p.ends("Ebad_op\n") },
		} {
			for i := range 8 {
				key := fmt.Sprint("k", i%4)
				gone := s.dial(t)
				gone.queue(250, 250, key)
				p.refused('B', 250, key)
				leave(gone)
				left := time.Now()
				for busy := true; busy; {
					q, o := s.dial(t), newOwner()
					q.send(acquire(o, 250, 250, key), release(0, key))
					r, err := q.next()
					if busy = r.is('B', o, key); err != nil || !busy && !r.is('N', 0, key) {
						t.Fatalf("got %v, %v", r, err)
					}
					if d := r.at.Sub(left); busy && d > atOnce+slack(left) {
						t.Fatalf("%s: the place was not free after %v", how, d)
					}
					q.reset()
				}
				gone.close()
				await(t, "the queue is empty", func() bool { return s.metrics(t)["ticketing_waiters"] == 0 })
			}
		}
	}, "MAX_WAITERS=1")
}

// TestLockOutlivesConnection: what was granted stays held when its connection
// ends, and its token releases it from any other (§3.7, §4.3).
func TestLockOutlivesConnection(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		other := s.dial(t)
		for how, leave := range map[string]func(p *peer){
			"FIN":        (*peer).close,
			"RST":        (*peer).reset,
			"half-close": (*peer).closeWrite,
			"error":      func(p *peer) { p.send([]byte("?")) },
		} {
			p := s.dial(t)
			next := s.dial(t)
			next.quiet()
			token := p.lock(how, 250)
			leave(p)
			await(t, how+": the connection is gone", func() bool {
				return s.metrics(t)["ticketing_connections"] == 2
			})
			other.refused('T', 0, how)
			o := next.queue(250, 250, how)
			other.unlock(token, how)
			next.expect('A', o, how)
			next.close()
			await(t, "one connection is left", func() bool { return s.metrics(t)["ticketing_connections"] == 1 })
		}
	})
}

// TestNoReplyStrays: file descriptors are reused while hand-overs are on
// their way to connections that just ended. No client ever reads a reply to
// another's attempt.
func TestNoReplyStrays(t *testing.T) {
	const clients, rounds = 12, 120
	onLoops(t, func(t *testing.T, s *server) {
		together(t, clients, func(i int) error {
			for round := range rounds {
				p, err := s.tryDial(t, 0)
				if err != nil {
					return err
				}
				o, key := newOwner(), fmt.Sprint("k", round%4)
				err = p.write(acquire(o, 2, 1, key), acquire(o, 0, 1, key), acquire(o, 2, 1, fmt.Sprint("x", i%3)))
				if err != nil {
					return err
				}
				for range round % 4 { // leave with the rest still on its way
					r, err := p.nextWithin(50 * time.Millisecond)
					if ne, ok := err.(net.Error); ok && ne.Timeout() {
						break
					}
					if err != nil {
						return err
					}
					if r.op == 'A' && r.owner == o {
						err = p.write(release(r.token, r.text))
					} else if r.op != 'R' && (r.owner != o || r.op != 'T') {
						err = fmt.Errorf("owner %#x got %v", o, r)
					}
					if err != nil {
						return err
					}
				}
				if round%2 == 0 {
					p.reset()
				} else {
					p.close()
				}
			}
			return nil
		})
		p := s.dial(t) // and no key is lost for longer than its lease
		for i := range 4 {
			o := newOwner()
			p.send(acquire(o, 10, 30, fmt.Sprint("k", i)))
			p.expect('A', o, fmt.Sprint("k", i))
		}
	})
}
