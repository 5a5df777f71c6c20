package loop

import (
	"log/slog"
	"testing"

	"ticketing/codec"
)

// A panic of ours costs one session, not the server.
func TestPanicCostsOneSession(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1; c.Logger = slog.New(slog.DiscardHandler) })
	l := srv.loops[0]
	p, q := dial(t, srv), dial(t, srv)
	q.acquire(1, 0, 30, "q")
	q.want(codec.OpGranted)

	acquires := srv.budgets.Acquires
	ask(l, func() bool { srv.budgets.Acquires = nil; return true })
	p.acquire(1, 0, 30, "p")
	p.wantEnd()
	ask(l, func() bool { srv.budgets.Acquires = acquires; return true })

	q.acquire(2, 0, 30, "p")
	q.want(codec.OpGranted)
	if n := ask(l, func() uint64 { return l.ended[EndPanic] }); n != 1 {
		t.Errorf("%d sessions ended by a panic, want 1", n)
	}
	l.command(func() { panic("of a command") })
	q.acquire(3, 0, 30, "p")
	q.want(codec.OpTimeout)
	if n := srv.panics.Load(); n != 2 {
		t.Errorf("%d panics counted, want 2", n)
	}
}

// A loop that hangs costs a reader of snapshots a bounded wait, and not more
// with each reader.
func TestSnapshotOfHungLoop(t *testing.T) {
	srv := startServer(t, nil)
	srv.Snapshot(t.Context(), 0)
	l := srv.loops[1]
	goOn := stall(t, l)
	for range 3 {
		if s := srv.Snapshot(t.Context(), 0); len(s.Loops) != 2 || s.Loops[0].At.IsZero() || s.Loops[1].At.IsZero() {
			t.Fatalf("snapshot %+v", s.Loops)
		}
	}
	n := 0
	for c := l.commands.head.Load(); c != nil; c = c.next {
		n++
	}
	if n != 1 {
		t.Errorf("%d commands wait for the hung loop, want 1", n)
	}
	goOn()
	for range 2 { // what was asked before, and again
		before := srv.Snapshot(t.Context(), 0).Loops[1].At
		eventually(t, "the loop publishes", func() bool { return srv.Snapshot(t.Context(), 0).Loops[1].At.After(before) })
	}
}
