package loop

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"ticketing/codec"
)

// stall keeps a loop, and its shard, busy until the returned func is called.
func stall(t testing.TB, l *loop) (goOn func()) {
	t.Helper()
	return keep(t, l, func() { l.own() })
}

// keep has a loop run first and then nothing until the returned func is called.
func keep(t testing.TB, l *loop, first func()) (goOn func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	l.command(func() { first(); close(entered); <-leave })
	<-entered
	goOn = sync.OnceFunc(func() { close(leave) })
	t.Cleanup(goOn)
	return goOn
}

// ask runs f on the loop and returns its result.
func ask[T any](l *loop, f func() T) T {
	c := make(chan T, 1)
	l.command(func() { c <- f() })
	return <-c
}

// keysOf returns n keys that belong to the shard of l.
func keysOf(l *loop, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		k := fmt.Sprint("key-", i)
		if dst, _ := l.place([]byte(k)); dst == l.idx {
			keys = append(keys, k)
		}
	}
	return keys
}

// dialTo returns a client whose session lives on l.
func dialTo(t testing.TB, srv *Server, l *loop) *peer {
	t.Helper()
	for {
		p := dial(t, srv)
		var home *loop
		eventually(t, "the connection is admitted", func() bool {
			home = homeOf(srv, p)
			return home != nil
		})
		if home == l {
			return p
		}
	}
}

// homeOf returns the loop that the session of p lives on, or nil.
func homeOf(srv *Server, p *peer) *loop {
	addr := p.LocalAddr().String()
	for _, l := range srv.loops {
		if ask(l, func() bool {
			return slices.ContainsFunc(l.slots, func(sl slot) bool {
				return sl.session != nil && !sl.session.closed && sl.session.conn.RemoteAddr().String() == addr
			})
		}) {
			return l
		}
	}
	return nil
}

// §7: 512 releases in flight; the connection that has the next one waits, with
// everything behind it, and nothing is refused or lost.
func TestReleaseLane(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	mine, theirs := keysOf(here, 1)[0], keysOf(there, 1)[0]
	p, q, r := dialTo(t, srv, here), dialTo(t, srv, here), dialTo(t, srv, here)
	goOn := stall(t, there)

	var b []byte
	for i := range 512 {
		b = codec.AppendRelease(b, uint64(1e9+i), theirs)
	}
	p.send(b)
	lane := srv.budgets.Releases
	eventually(t, "the lane is full", func() bool { return lane.Used() == 512 })
	if n := ask(here, func() int { return len(here.blocked) }); n != 0 {
		t.Fatalf("%d sessions are blocked by 512 releases", n)
	}

	// The 513th, and behind it more input than is kept in memory. The answers fit
	// into the socket: a client that is slow to read them is another test's.
	b = b[:0]
	const more = 2500
	for i := range more {
		b = codec.AppendRelease(b, uint64(2e9+i), theirs)
	}
	b = codec.AppendAcquire(b, 7, 0, 30, mine)
	sent := make(chan error, 1)
	go func() { _, err := q.Write(b); sent <- err }()
	eventually(t, "the session is blocked and paused", func() bool {
		return ask(here, func() bool { return len(here.blocked) == 1 && here.blocked[0].paused })
	})
	backlog := ask(here, func() int { return here.blocked[0].conn.InboundBuffered() })
	if backlog < pauseBacklog || backlog > pauseBacklog+readBuffer {
		t.Errorf("%d bytes are kept for the blocked session", backlog)
	}
	// Others are served meanwhile.
	r.acquire(1, 0, 30, mine)
	r.want(codec.OpGranted)

	goOn()
	for i := range 512 {
		if n := p.want(codec.OpNotHeld); n.Token != uint64(1e9+i) {
			t.Fatalf("N for %d, want %d", n.Token, uint64(1e9+i))
		}
	}
	timeouts := 0
	for i := 0; i < more; {
		n := q.next()
		if n.Op == codec.OpTimeout && n.Owner == 7 { // of the nearer shard: may come earlier
			timeouts++
			continue
		}
		if n.Op != codec.OpNotHeld || n.Token != uint64(2e9+i) {
			t.Fatalf("%c for %d, want N for %d: order is lost", n.Op, n.Token, uint64(2e9+i))
		}
		i++
	}
	if timeouts == 0 {
		q.want(codec.OpTimeout)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lane is empty", func() bool { return lane.Used() == 0 })
}

// §7: acquires in flight close at 90 % of 4096 and open below 75 %; a closed
// admission answers B, also for keys that need no other loop.
func TestAcquiresInFlight(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	mine, theirs := keysOf(here, 1)[0], keysOf(there, 1)[0]
	p, q := dialTo(t, srv, here), dialTo(t, srv, here)
	q2 := dialTo(t, srv, here) // q holds its replies while it waits for the other loop
	goOn := stall(t, there)

	const closing = 3687 // 90 % of 4096, rounded up
	var b []byte
	for i := range closing - 1 {
		b = codec.AppendAcquire(b, uint64(i), 0, 30, theirs)
	}
	p.send(b)
	inFlight := srv.budgets.Acquires
	eventually(t, "89.99 % are in flight", func() bool { return inFlight.Used() == closing-1 })
	if !inFlight.Open() {
		t.Fatal("closed below 90 %")
	}
	q.acquire(1, 0, 30, mine)
	q.want(codec.OpGranted)
	q.acquire(2, 0, 30, theirs)
	eventually(t, "90 % are in flight", func() bool { return !inFlight.Open() })
	q2.acquire(3, 5, 30, theirs)
	q2.want(codec.OpBusy)
	q2.acquire(4, 5, 30, mine)
	q2.want(codec.OpBusy)
	if n := inFlight.Used(); n != closing {
		t.Fatalf("%d in flight, want %d", n, closing)
	}

	goOn()
	p.want(codec.OpGranted)
	for range closing - 2 {
		p.want(codec.OpTimeout)
	}
	q.want(codec.OpTimeout)
	eventually(t, "nothing is in flight", func() bool { return inFlight.Used() == 0 })
	q2.acquire(5, 0, 30, mine)
	q2.want(codec.OpTimeout)
}

// A half-closed client still gets what another loop decides for it, and then the
// error for its cut frame.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut=%v", cut), func(t *testing.T) {
			srv := startServer(t, nil)
			here, there := srv.loops[0], srv.loops[1]
			p := dialTo(t, srv, here)
			goOn := stall(t, there)
			keys := keysOf(there, 100)
			var b []byte
			for i, k := range keys {
				b = codec.AppendAcquire(b, uint64(i), 0, 30, k)
			}
			b = codec.AppendAcquire(b, 1000, 0, 30, keysOf(here, 1)[0])
			if cut {
				b = append(b, 'A', 1)
			}
			p.send(b)
			p.halfClose()
			eventually(t, "the FIN has been seen", func() bool {
				return ask(here, func() bool { s := here.slots[0].session; return s != nil && s.tail != nil })
			})
			goOn()
			seen := map[uint64]bool{}
			for range 101 {
				seen[p.want(codec.OpGranted).Owner] = true
			}
			if len(seen) != 101 {
				t.Fatalf("%d owners are granted, want 101", len(seen))
			}
			if cut {
				p.wantError("bad_request")
			} else {
				p.wantEnd()
			}
			eventually(t, "the session is gone", func() bool { return srv.live.Load() == 0 })
		})
	}
}

// Releases that wait for the lane when the FIN comes are still carried out.
func TestHalfClosedClientInTheLane(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(there, 1)[0]
	p, q := dialTo(t, srv, here), dialTo(t, srv, here)
	goOn := stall(t, there)
	var b []byte
	for i := range 512 {
		b = codec.AppendRelease(b, uint64(1+i), key)
	}
	p.send(b)
	eventually(t, "the lane is full", func() bool { return srv.budgets.Releases.Used() == 512 })
	q.send(codec.AppendRelease(codec.AppendRelease(nil, 1001, key), 1002, key))
	q.halfClose()
	eventually(t, "the FIN has been seen", func() bool {
		return ask(here, func() bool { return len(here.blocked) == 1 && here.blocked[0].tail != nil })
	})
	goOn()
	for i := range 2 {
		if r := q.want(codec.OpNotHeld); r.Token != uint64(1001+i) {
			t.Fatalf("answered %d", r.Token)
		}
	}
	q.wantEnd()
}
