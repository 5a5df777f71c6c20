package loop

import (
	"math"
	"testing"

	"ticketing/codec"
	"ticketing/shard"
)

// §3.7: what a half-closed client still asks for behind the lane does not
// leave a waiter behind that nobody will hear of.
func TestHalfClosedClientLeavesNoWaiter(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	mine, theirs := keysOf(here, 1)[0], keysOf(there, 1)[0]
	h, p := dial(t, srv), dialTo(t, srv, here)
	for _, key := range []string{mine, theirs} {
		h.acquire(1, 0, 60, key)
		h.want(codec.OpGranted)
	}
	for srv.budgets.Releases.TryTake() { // fill the lane
	}
	b := codec.AppendRelease(nil, 1e9, theirs)
	b = codec.AppendAcquire(b, 2, 60, 60, mine)
	b = codec.AppendAcquire(b, 3, 60, 60, theirs)
	p.send(b)
	p.halfClose()
	eventually(t, "the FIN has been seen", func() bool {
		return ask(here, func() bool { return len(here.blocked) == 1 && here.blocked[0].tail != nil })
	})
	srv.budgets.Releases.Give(512)
	srv.wakeStalled()
	p.want(codec.OpNotHeld)
	p.wantEnd()
	eventually(t, "no waiter is left", func() bool { return srv.budgets.Waiters.Used() == 0 })
}

// A waiter of another loop hears B when tokens run out at its turn (§5).
func TestTokensRunOutForAWaiterAbroad(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(here, 1)[0]
	h, w := dialTo(t, srv, here), dialTo(t, srv, there)
	h.acquire(1, 0, 60, key)
	g := h.want(codec.OpGranted)
	w.acquire(2, 60, 60, key)
	eventually(t, "it waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	ask(here, func() bool { *srv.budgets.Tokens = *shard.NewTokens(math.MaxUint64); return true })
	h.release(g.Token, key)
	h.want(codec.OpReleased)
	if r := w.want(codec.OpBusy); r.Owner != 2 {
		t.Fatalf("got %+v", r)
	}
}

// A grant whose reply never left its loop is given back when the connection
// breaks: the key is free at once, not after its lease.
func TestUnsentGrantIsGivenBack(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	mine, theirs := keysOf(here, 1)[0], keysOf(there, 1)[0]
	p, q := dialTo(t, srv, here), dialTo(t, srv, here)
	goOn := stall(t, there)
	// The grant of mine is held, because theirs is still out.
	p.send(codec.AppendAcquire(codec.AppendAcquire(nil, 1, 0, 250, mine), 2, 0, 250, theirs))
	eventually(t, "mine is granted", func() bool { return srv.budgets.Keys.Used() == 1 })
	p.reset()
	eventually(t, "the grant is given back", func() bool { return srv.budgets.Keys.Used() == 0 })
	goOn()
	for _, key := range []string{mine, theirs} {
		q.acquire(3, 10, 30, key)
		q.want(codec.OpGranted)
	}
}

// §6: E shutting_down says that nothing unanswered will be executed, so a
// session with an operation in another loop that does not answer is not told it.
func TestDrainDoesNotLie(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	p, q := dialTo(t, srv, here), dialTo(t, srv, here)
	goOn := stall(t, there)
	p.release(1, keysOf(there, 1)[0])
	eventually(t, "the release is out", func() bool { return srv.budgets.Releases.Used() == 1 })
	here.command(func() {
		here.startDrain()
		for _, sl := range here.slots { // the time is up at once
			if s := sl.session; s != nil && s.abroad > 0 {
				s.until = here.now
				here.setDeadline(s, here.now)
			}
		}
	})
	q.wantError("shutting_down")
	p.wantEnd()
	goOn()
}
