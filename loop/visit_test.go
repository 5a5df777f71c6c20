package loop

import (
	"testing"
	"time"

	"ticketing/codec"
	"ticketing/lease"
)

// idle keeps a loop from turning until the returned func is called, with its
// shard free, as it is in a loop that sleeps or writes.
func idle(t testing.TB, l *loop) (goOn func()) {
	t.Helper()
	return keep(t, l, l.letGo)
}

// A shard that is free is served by the loop that asks: its own loop need not run.
// The ends of waits that come of it reach sessions of either loop, and timers are set.
func TestVisit(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(there, 1)[0]
	p, q, r := dialTo(t, srv, here), dialTo(t, srv, here), dialTo(t, srv, there)
	goOn := idle(t, there)
	p.acquire(1, 0, 60, key)
	g := p.want(codec.OpGranted)
	q.acquire(2, 60, 60, key)
	eventually(t, "it waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	p.acquire(3, 0, 60, key)
	p.want(codec.OpTimeout)
	p.release(g.Token, key)
	p.want(codec.OpReleased)
	g = q.want(codec.OpGranted)
	goOn()
	r.acquire(4, 60, 60, key)
	eventually(t, "it waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	q.release(g.Token, key)
	q.want(codec.OpReleased)
	g = r.want(codec.OpGranted)

	// The alarm is set for a wait that a visitor has begun.
	p.acquire(5, 1, 60, key)
	eventually(t, "it waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	if at := ask(there, func() lease.Instant { there.own(); return there.armed }); at > srv.clock().Add(time.Second) {
		t.Fatalf("the alarm is set to %d, more than a second from now", at)
	}
	if r := p.want(codec.OpTimeout); r.Owner != 5 {
		t.Fatalf("got owner %d", r.Owner)
	}
}

// Nobody visits a shard for which mail is waiting: it would overtake (§4.4).
func TestVisitorsDoNotOvertakeMail(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(there, 1)[0]
	p := dialTo(t, srv, here)
	posted, goOn := make(chan struct{}), make(chan struct{})
	entered := make(chan struct{})
	there.command(func() {
		there.own()
		entered <- struct{}{}
		<-posted
		there.letGo()
		entered <- struct{}{}
		<-goOn
	})
	<-entered
	p.acquire(1, 0, 60, key)
	eventually(t, "the first is in the mail", func() bool { return !there.mail.asked.empty() })
	close(posted)
	<-entered
	p.acquire(2, 0, 60, key)
	eventually(t, "the second is under way", func() bool { return srv.budgets.Acquires.Used() == 2 })
	close(goOn)
	for range 2 {
		switch r := p.next(); {
		case r.Owner == 1 && r.Op == codec.OpGranted:
		case r.Owner == 2 && r.Op == codec.OpTimeout:
		default:
			t.Fatalf("got %c for owner %d", r.Op, r.Owner)
		}
	}
}

// A panic during a visit ends the visit: the shard is not shut.
func TestPanicDuringAVisit(t *testing.T) {
	srv := startServer(t, func(cfg *Config) { cfg.Logger = nil })
	here, there := srv.loops[0], srv.loops[1]
	p, q := dialTo(t, srv, here), dialTo(t, srv, there)
	goOn := idle(t, there)
	here.command(func() {
		b := here.outboxFor(there.idx)
		b.msgs = append(b.msgs, message{kind: askAcquire, key: 1 << 20, keyLen: 1}) // no such key
	})
	eventually(t, "it panics", func() bool { return srv.panics.Load() == 1 })
	p.acquire(1, 0, 60, keysOf(there, 1)[0])
	p.want(codec.OpGranted)
	goOn()
	q.acquire(2, 0, 60, keysOf(there, 2)[1])
	q.want(codec.OpGranted)
}
