package loop

import (
	"fmt"
	"testing"
	"time"

	"ticketing/codec"
)

// No answer leaves before its turn is confirmed, whatever it says, and none is
// kept back that was.
func TestAnswersAreWithheld(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, func(c *Config) { c.MaxWaiters = 1 })
		here, there := srv.loops[0], srv.loops[loops-1]
		p, w := dialTo(t, srv, here), dialTo(t, srv, here)
		key := keysOf(there, 1)[0]
		step := 0
		// withheld sends what makes a turn, looks that nothing comes of it, and confirms.
		withheld := func(read bool, records string, send func()) {
			t.Helper()
			send()
			step++
			turn := log.await(there, step)
			if got := log.submitted(there)[step-1]; got != records || turn.Read != read || turn.Epoch != 1 {
				t.Fatalf("turn %d: %q, read %v, epoch %d; want %q, read %v", step, got, turn.Read, turn.Epoch, records, read)
			}
			p.wantSilence(srv)
			w.wantSilence(srv)
			log.confirm(there)
		}
		withheld(false, "g "+key+" 1;", func() { p.acquire(1, 0, 30, key) })
		if g := p.want(codec.OpGranted); g.Token != 1 || g.Owner != 1 {
			t.Fatalf("granted %+v", g)
		}
		withheld(true, "", func() { p.acquire(2, 0, 30, key) })
		p.want(codec.OpTimeout)
		withheld(true, "", func() { p.release(7, key) })
		p.want(codec.OpNotHeld)
		withheld(false, "", func() { w.acquire(3, 60, 30, key) }) // parked: nothing to say
		w.wantSilence(srv)
		withheld(false, "", func() { p.acquire(4, 60, 30, key) }) // the queue is full
		p.want(codec.OpBusy)
		withheld(false, "r "+key+" 1;g "+key+" 2;", func() { p.release(1, key) })
		p.want(codec.OpReleased)
		if g := w.want(codec.OpGranted); g.Token != 2 || g.Owner != 3 {
			t.Fatalf("handed over %+v", g)
		}
		withheld(false, "r "+key+" 2;", func() { w.release(2, key) })
		w.want(codec.OpReleased)
		wantNothingLeft(t, srv)
	})
}

// The end of a wait shows that the key is still held: it needs proof of the lead.
func TestTimeoutOfWaiterIsWithheld(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		key := keysOf(l, 1)[0]
		p.acquire(1, 0, 60, key)
		log.await(l, 1)
		log.confirm(l)
		p.want(codec.OpGranted)
		start := time.Now()
		p.acquire(2, 1, 60, key)
		log.await(l, 2)
		log.confirm(l)
		if turn := log.await(l, 3); !turn.Read || len(turn.Records) > 0 {
			t.Fatalf("turn %+v", turn)
		}
		if d := time.Since(start); d < time.Second {
			t.Fatalf("a wait of 1 s ended after %v", d)
		}
		p.wantSilence(srv)
		log.confirm(l)
		p.want(codec.OpTimeout)
		wantNothingLeft(t, srv)
	})
}

// Answers about one key come in the order of the requests (§4.4), and a turn that
// is confirmed later says nothing earlier.
func TestWithheldOrder(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		keys := keysOf(l, 2)
		var b []byte
		b = codec.AppendAcquire(b, 1, 0, 30, keys[0])
		b = codec.AppendAcquire(b, 2, 0, 30, keys[0])
		b = codec.AppendRelease(b, 1, keys[0])
		b = codec.AppendRelease(b, 1, keys[0])
		b = codec.AppendAcquire(b, 3, 0, 30, keys[0])
		p.send(b)
		first := log.await(l, 1)
		p.acquire(4, 0, 30, keys[1])
		log.await(l, 2)
		p.wantSilence(srv)
		srv.Confirm(0, first.Seq)
		for i, want := range []codec.Op{codec.OpGranted, codec.OpTimeout, codec.OpReleased, codec.OpNotHeld, codec.OpGranted} {
			if r := p.next(); r.Op != want {
				t.Fatalf("answer %d is %c, want %c", i, r.Op, want)
			}
		}
		p.wantSilence(srv)
		srv.Confirm(0, first.Seq) // again changes nothing
		p.wantSilence(srv)
		log.confirm(l)
		if r := p.want(codec.OpGranted); r.Owner != 4 || r.Token != 3 {
			t.Fatalf("granted %+v", r)
		}
		wantNothingLeft(t, srv)
	})
}

// Loops are confirmed apart from each other.
func TestConfirmOutOfPhase(t *testing.T) {
	srv, log := startLeader(t, 3, nil)
	p := dialTo(t, srv, srv.loops[1])
	var keys []string
	for i, l := range srv.loops {
		keys = append(keys, keysOf(l, 1)[0])
		p.acquire(uint64(i), 0, 30, keys[i])
		log.await(l, 1)
	}
	p.wantSilence(srv)
	for _, i := range []int{2, 0, 1} {
		log.confirm(srv.loops[i])
		if r := p.want(codec.OpGranted); r.Owner != uint64(i) || r.Token != uint64(i+1) || string(r.Text) != keys[i] {
			t.Fatalf("granted %+v, want owner %d", r, i)
		}
		p.wantSilence(srv)
	}
}

// A lease is counted from the commit, however long that took.
func TestLeaseIsCountedFromCommit(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		key := keysOf(l, 1)[0]
		p.acquire(1, 0, 1, key)
		log.await(l, 1)
		p.acquire(2, 200, 30, key)
		log.await(l, 2)
		time.Sleep(1100 * time.Millisecond) // longer than the lease
		if n := len(log.submitted(l)); n != 2 {
			t.Fatalf("%d turns: an uncommitted lease has ended: %v", n, log.submitted(l))
		}
		start := time.Now()
		log.confirm(l)
		p.want(codec.OpGranted)
		log.await(l, 3)
		if d := time.Since(start); d < time.Second {
			t.Fatalf("a lease of 1 s ended %v after its commit", d)
		}
		if got, want := log.submitted(l)[2], fmt.Sprintf("x %s 1;g %s 2;", key, key); got != want {
			t.Fatalf("records %q, want %q", got, want)
		}
		p.wantSilence(srv)
		log.confirm(l)
		p.want(codec.OpGranted)
	})
}

// A grant whose session has gone when it is confirmed is released, by a record.
func TestWithheldGrantIsGivenBack(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		key := keysOf(l, 1)[0]
		p.acquire(1, 0, 250, key)
		log.await(l, 1)
		before := srv.live.Load()
		resetConn(p)
		eventually(t, "the session is gone", func() bool { return srv.live.Load() == before-1 })
		log.confirm(l)
		log.await(l, 2)
		if got, want := log.submitted(l)[1], "r "+key+" 1;"; got != want {
			t.Fatalf("records %q, want %q", got, want)
		}
		log.confirm(l)
		wantNothingLeft(t, srv)
		if srv.budgets.Keys.Used() != 0 {
			t.Fatal("a key is held by nobody")
		}
	})
}

// The answers of what was asked before a wrong frame come before its E (§6).
func TestErrorWaitsForWithheld(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		p.send(append(codec.AppendAcquire(nil, 1, 0, 30, keysOf(l, 1)[0]), 'X'))
		log.await(l, 1)
		p.wantSilence(srv)
		log.confirm(l)
		p.want(codec.OpGranted)
		p.wantError("bad_op")
	})
}

// A half-closed client gets what is confirmed later.
func TestHalfClosedClientOfLeader(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p := dialTo(t, srv, srv.loops[loops-1])
		p.acquire(1, 0, 30, keysOf(l, 1)[0])
		closeWrite(t, p)
		log.await(l, 1)
		p.wantSilence(srv)
		log.confirm(l)
		p.want(codec.OpGranted)
		p.wantEnd()
	})
}

// The drain answers what was asked before it, when that is confirmed.
func TestDrainWaitsForWithheld(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		l := srv.loops[0]
		p, q := dialTo(t, srv, srv.loops[loops-1]), dialTo(t, srv, l)
		p.acquire(1, 0, 30, keysOf(l, 1)[0])
		log.await(l, 1)
		for _, l := range srv.loops {
			ask(l, func() bool { l.startDrain(); return true })
		}
		q.wantError("shutting_down")
		p.wantSilence(srv)
		log.confirm(l)
		p.want(codec.OpGranted)
		p.wantError("shutting_down")
	})
}
