package loop

import (
	"testing"
	"time"

	"ticketing/codec"
)

// A grant that a slow client has not been sent when its connection ends is given
// back, however the connection ends (§3, "never left").
func TestUnsentGrantOfSlowClientIsGivenBack(t *testing.T) {
	reset := func(t *testing.T, _ *Server, p *peer, _ int) {
		p.reset()
	}
	ends := map[string]func(t *testing.T, srv *Server, p *peer, owed int){
		"reset": reset,
		"slow reader": func(t *testing.T, _ *Server, p *peer, owed int) {
			var b []byte
			for i := range unsentReplies {
				b = codec.AppendAcquire(b, uint64(owed+i), 0, 30, held)
			}
			p.send(b)
		},
		"half-closed, then reset": func(t *testing.T, srv *Server, p *peer, owed int) {
			l := srv.loops[0]
			p.halfClose()
			eventually(t, "the FIN has been seen", func() bool {
				return ask(l, func() bool { s := l.slots[0].session; return s != nil && s.tail != nil })
			})
			reset(t, srv, p, owed)
		},
		"an error it does not read": func(t *testing.T, srv *Server, p *peer, _ int) {
			l := srv.loops[0]
			p.send([]byte("X"))
			eventually(t, "the session fails", func() bool {
				return ask(l, func() bool { return l.slots[0].session.phase == failing })
			})
			ask(l, func() bool { // its patience ends now
				s := l.slots[0].session
				s.until = l.now
				l.setDeadline(s, l.now)
				return true
			})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = 1 })
			p, owed := slowClient(t, srv, 100)
			p.acquire(1e9, 0, 250, "unsent")
			eventually(t, "it is granted", func() bool { return srv.budgets.Keys.Used() == 2 })
			end(t, srv, p, owed)
			eventually(t, "the grant is given back", func() bool { return srv.budgets.Keys.Used() == 1 })
			eventually(t, "the session is gone", func() bool { return srv.live.Load() == 0 })
			q := dial(t, srv)
			q.acquire(1, 0, 30, "unsent")
			q.want(codec.OpGranted)
			q.acquire(1, 0, 30, held) // its A was read: the lease stands
			q.want(codec.OpTimeout)
		})
	}
}

// A key that is handed over to a client whose connection was reset, which the
// loop learns from the failing write, does not stay shut.
func TestHandOverToResetClient(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	h, w := dial(t, srv), dial(t, srv)
	h.acquire(1, 0, 250, "k")
	g := h.want(codec.OpGranted)
	w.acquire(2, 250, 250, "k")
	eventually(t, "it waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	goOn := stall(t, srv.loops[0])
	h.release(g.Token, "k") // is ready first and so served first
	w.reset()
	goOn()
	h.want(codec.OpReleased)
	eventually(t, "the client is gone", func() bool { return srv.live.Load() == 1 })
	if n := srv.Snapshot(t.Context(), 0).Loops[0].Shard.Handovers; n != 1 {
		t.Fatalf("%d hand-overs: the reset came first, the test shows nothing", n)
	}
	if n := srv.budgets.Keys.Used(); n != 0 {
		t.Fatalf("%d keys are held by nobody", n)
	}
}

// What has left whole, in part and not at all is told apart at each byte.
func TestUnsentSettles(t *testing.T) {
	var batch []byte
	var starts []int
	for i := range 5 {
		starts = append(starts, len(batch))
		batch = codec.AppendGranted(batch, uint64(i+1), uint64(i), "key")
	}
	for left := 1; left <= len(batch); left++ {
		u := &unsent{}
		u.add(batch)
		u.settle(left)
		sent := len(batch) - left
		first := 0
		for first+1 < len(starts) && starts[first+1] <= sent {
			first++
		}
		if want := string(batch[starts[first]:]); string(u.bytes) != want || u.sent != sent-starts[first] || len(u.ends) != 5-first {
			t.Fatalf("%d left: %d bytes kept, %d of them sent, %d replies; want %d, %d, %d", left,
				len(u.bytes), u.sent, len(u.ends), len(want), sent-starts[first], 5-first)
		}
	}
}

// §3.6: a wait that was asked for while the other loop was in a long turn is not
// counted from the beginning of that turn.
func TestForeignWaitIsNotEarly(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(there, 1)[0]
	h, p := dialTo(t, srv, here), dialTo(t, srv, here)
	h.acquire(1, 0, 60, key)
	h.want(codec.OpGranted)
	goOn := stall(t, there)
	time.Sleep(100 * time.Millisecond) // the turn that is long
	start := time.Now()
	p.acquire(2, 1, 30, key)
	eventually(t, "it is on its way", func() bool { return srv.budgets.Acquires.Used() == 1 })
	goOn()
	p.want(codec.OpTimeout)
	if d := time.Since(start); d < time.Second {
		t.Fatalf("a wait of 1 s ended after %v", d)
	}
}
