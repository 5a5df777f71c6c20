package loop

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"ticketing/codec"
)

// held is as long as a key can be, so that fewer replies fill the kernel's buffers.
var held = strings.Repeat("k", codec.MaxKey)

// slowClient returns a client that does not read, whose session has n unsent
// replies, and the number of replies it is owed in all.
func slowClient(t *testing.T, srv *Server, n int) (p *peer, owed int) {
	t.Helper()
	l := srv.loops[0]
	p = dial(t, srv)
	p.acquire(1, 0, 250, held)
	p.want(codec.OpGranted)
	for {
		have := unsentOf(l)
		if have == n {
			return p, owed
		}
		if have > n {
			t.Fatalf("%d replies are unsent, want %d: passed it", have, n)
		}
		step := 64
		if have > 0 {
			step = 1
		}
		var b []byte
		for range step {
			owed++
			b = codec.AppendAcquire(b, uint64(owed), 0, 30, held)
		}
		p.send(b)
		eventually(t, "the replies are made", func() bool {
			return ask(l, func() bool { return l.shard.Counters().TimedOut == uint64(owed) })
		})
	}
}

// unsentOf returns how many replies the first session of l has not been sent,
// or -1 when it has ended.
func unsentOf(l *loop) int {
	return ask(l, func() int {
		switch s := l.slots[0].session; {
		case s == nil:
			return -1
		case s.unsent == nil:
			return 0
		default:
			return len(s.unsent.ends)
		}
	})
}

// §7: 256 unsent replies are kept, one more closes the connection.
func TestUnsentReplies(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	l := srv.loops[0]
	p, owed := slowClient(t, srv, unsentReplies)
	q := dial(t, srv)
	q.acquire(9, 0, 30, held)
	q.want(codec.OpTimeout) // others are served; the slow one is still there
	if n := unsentOf(l); n != unsentReplies {
		t.Fatalf("%d unsent", n)
	}
	p.acquire(uint64(owed+1), 0, 30, held)
	eventually(t, "the slow client is closed", func() bool {
		return ask(l, func() bool { return l.ended[EndSlowReader] == 1 })
	})
	q.acquire(10, 0, 30, held)
	q.want(codec.OpTimeout)
}

// A slow client that reads in the end gets everything, in order.
func TestSlowClientCatchesUp(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	p, owed := slowClient(t, srv, 200)
	for i := range owed {
		if r := p.want(codec.OpTimeout); r.Owner != uint64(i+1) {
			t.Fatalf("reply %d is for owner %d", i+1, r.Owner)
		}
	}
	p.acquire(1e6, 0, 30, held)
	p.want(codec.OpTimeout)
	if n := unsentOf(srv.loops[0]); n != 0 {
		t.Fatalf("%d unsent", n)
	}
}

// A slow client that half-closes still gets every reply exactly once.
func TestSlowHalfClosedClient(t *testing.T) {
	for _, unread := range []int{70, 150, unsentReplies} {
		t.Run(fmt.Sprint(unread), func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = 1 })
			l := srv.loops[0]
			p, owed := slowClient(t, srv, unread)
			p.halfClose()
			eventually(t, "the FIN has been seen", func() bool {
				return ask(l, func() bool { s := l.slots[0].session; return s != nil && s.tail != nil })
			})
			for i := range owed {
				if r := p.want(codec.OpTimeout); r.Owner != uint64(i+1) {
					t.Fatalf("reply %d is for owner %d", i+1, r.Owner)
				}
			}
			p.wantEnd()
			eventually(t, "the session is gone", func() bool { return srv.live.Load() == 0 })
			q := dial(t, srv) // its descriptor is likely that of the session before
			q.acquire(9, 0, 30, held)
			q.want(codec.OpTimeout)
		})
	}
}

// An error to a slow client comes behind all it is owed.
func TestErrorToSlowClient(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	p, owed := slowClient(t, srv, 100)
	p.send([]byte("Xgarbage"))
	got := 0
	for {
		r, err := p.read()
		if err != nil {
			t.Fatalf("after %d of %d replies: %v", got, owed, err)
		}
		if r.Op == codec.OpError {
			break
		}
		got++
	}
	if got != owed {
		t.Fatalf("%d replies before the error, want %d", got, owed)
	}
	if _, err := p.read(); err != io.EOF {
		t.Fatalf("after the error: %v", err)
	}
}

// burst returns a client with n attempts of long keys whose waits end at once.
func burst(t *testing.T, srv *Server, name string, n int) (p *peer) {
	t.Helper()
	h, p := dial(t, srv), dial(t, srv)
	var b []byte
	for i := range n {
		h.acquire(uint64(i), 0, 250, fmt.Sprintf("%s%0127d", name, i))
		h.want(codec.OpGranted)
		b = codec.AppendAcquire(b, uint64(i), 1, 250, fmt.Sprintf("%s%0127d", name, i))
	}
	p.send(b)
	eventually(t, "all wait", func() bool { return srv.budgets.Waiters.Used() == n })
	return p
}

// A client that reads is not taken for a slow one, however many replies are due
// to it in one instant; one that does not read is.
func TestBurstOfReplies(t *testing.T) {
	const n, size = 4000, 1 + 8 + codec.MaxKey + 1
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprintf("loops=%d", loops), func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = loops })
			p := burst(t, srv, "a", n)
			letPass(srv, time.Second)
			all := make([]byte, n*size)
			if _, err := io.ReadFull(p.r, all); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if all[i*size] != byte(codec.OpTimeout) {
					t.Fatalf("reply %d is %q", i, all[i*size:(i+1)*size])
				}
			}
			p.release(1, held)
			p.want(codec.OpNotHeld)

			burst(t, srv, "b", n)
			letPass(srv, time.Second)
			eventually(t, "the slow client is closed", func() bool {
				return srv.Snapshot(t.Context(), 0).ended(EndSlowReader) == 1
			})
		})
	}
}

// ended is how many sessions have ended for a reason.
func (s Snapshot) ended(r EndReason) (n uint64) {
	for _, l := range s.Loops {
		n += l.Ended[r]
	}
	return n
}
