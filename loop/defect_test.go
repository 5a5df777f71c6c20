package loop

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"ticketing/codec"
	"ticketing/shard"
)

// On a node of a cluster a panic while a shard decides ends the server: nothing
// of that turn goes to the log, and nobody is told anything that could be untrue.
func TestPanicWhileDecidingEndsAMember(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		for _, draining := range []bool{false, true} {
			breakDown(t, loops, draining)
		}
	})
}

func breakDown(t *testing.T, loops int, draining bool) {
	log := &heldLog{t: t, turns: make([][]shard.Turn, loops), keys: make([][]string, loops), done: make([]uint64, loops)}
	srv, err := New(Config{
		ListenAddr: "127.0.0.1:0", Loops: loops, MaxConnections: DefaultConnections, MaxWaiters: DefaultWaiters,
		MaxTotalWaiters: DefaultTotalWaiters, MaxKeys: ClusterMaxKeys, DrainTimeout: MaxDrainTimeout, Replica: log,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	log.srv = srv
	ctx, drain := context.WithCancel(t.Context())
	defer drain()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	lead(t, srv, 1, 0)
	here, there := srv.loops[0], srv.loops[loops-1]
	keys := keysOf(there, 3)
	p, q := dialTo(t, srv, here), dialTo(t, srv, here)
	p.acquire(1, 0, 30, keys[0])
	log.await(there, 1)
	log.confirm(there)
	p.want(codec.OpGranted)
	p.acquire(2, 0, 30, keys[1])
	log.await(there, 2) // and not confirmed: the drain waits for it

	goOn := stall(t, there)
	if draining {
		drain()
		eventually(t, "it drains", srv.draining.Load)
		there.command(func() { panic("of a shard") })
	} else {
		srv.budgets.Tokens = nil // a new key is counted, and then the shard panics
		q.send(codec.AppendAcquire(codec.AppendAcquire(nil, 3, 0, 30, keys[0]), 4, 0, 30, keys[2]))
	}
	goOn()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "panicked while it decided") {
		t.Fatalf("Serve: %v", err)
	}
	for name, c := range map[string]*peer{"p": p, "q": q} {
		if r, err := c.read(); err == nil && !(name == "q" && draining && r.Op == codec.OpError) {
			t.Errorf("%s was told %c %q", name, r.Op, r.Text)
		}
	}
	if got := log.submitted(there); len(got) != 2 {
		t.Errorf("turns in the log: %q", got)
	}
	if n := srv.panics.Load(); n == 0 {
		t.Error("no panic is counted")
	}
}

// Until it has ended, a node whose shard is in doubt decides nothing, confirms
// nothing, and claims of nothing that it was not done.
func TestBrokenMemberIsSilent(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startLeader(t, loops, nil)
		here, there := srv.loops[0], srv.loops[loops-1]
		keys := keysOf(there, 2)
		p, q := dialTo(t, srv, here), dialTo(t, srv, here)
		p.acquire(1, 0, 30, keys[0])
		log.await(there, 1)
		srv.broken.Store(true)
		log.confirm(there)
		q.acquire(2, 0, 30, keys[1])
		eventually(t, "it is asked", func() bool {
			return ask(here, func() bool { return here.outboxes[there.idx] != nil })
		})
		p.wantSilence(srv)
		q.wantSilence(srv)
		if got := log.submitted(there); len(got) != 1 {
			t.Errorf("turns in the log: %q", got)
		}
		notice := func(r codec.Reason) []byte {
			return ask(here, func() []byte { return here.appendNotice(nil, &session{reason: r}) })
		}
		for _, r := range []codec.Reason{reasonMoved, reasonShuttingDown} {
			if got := notice(r); len(got) > 0 {
				t.Errorf("it would say %q", got)
			}
		}
		srv.broken.Store(false)
		if got := notice(reasonShuttingDown); len(got) == 0 {
			t.Error("a sound one says nothing either")
		}
		settle(srv)
		log.confirmAll()
		p.want(codec.OpGranted)
		q.want(codec.OpGranted)
	})
}
