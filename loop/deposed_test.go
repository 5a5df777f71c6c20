package loop

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"ticketing/auth"
	"ticketing/codec"
	"ticketing/shard"
)

const elsewhere = "10.0.0.2:7654"

// A node that does not lead executes nothing: the first request ends the
// session. What is no request is as ever.
func TestNotLeading(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, log := startMember(t, loops, nil)
		acquire := codec.AppendAcquire(nil, 1, 10, 30, "k")
		release := codec.AppendRelease(nil, 1, "k")
		for _, leader := range []string{"", elsewhere, ""} {
			srv.Follow(leader)
			settle(srv)
			for _, frames := range []string{string(acquire), string(release), "\n\n" + string(acquire) + "X", string(release) + string(acquire)} {
				p := dial(t, srv)
				p.send([]byte("\n")) // keep-alive: no answer, no end
				p.wantSilence(srv)
				p.send([]byte(frames))
				if leader == "" {
					p.wantError("no_leader")
				} else {
					p.wantNotice(codec.OpMoved, leader)
				}
			}
			for frames, reason := range map[string]string{
				"X":                           "bad_op",
				"\nA\x00\x00" + "owner678k\n": "bad_lease",
				"A\x00\x01":                   "", // not whole: waits
				"R12345678\n":                 "bad_key",
				"\nX" + "A\x00\x01":           "bad_op",
			} {
				p := dial(t, srv)
				p.send([]byte(frames))
				if reason == "" {
					p.wantSilence(srv)
					closeWrite(t, p)
					reason = "bad_request"
				}
				p.wantError(reason)
			}
		}
		if n := len(log.submitted(srv.loops[0])); n != 0 {
			t.Fatalf("%d turns submitted", n)
		}
		wantNothingLeft(t, srv)
	})
}

// With a secret a node that does not lead does the handshake first.
func TestNotLeadingWithSecret(t *testing.T) {
	secret := []byte("correct horse")
	secrets, err := auth.NewSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	srv, _ := startMember(t, 1, func(c *Config) { c.Secrets = secrets })
	srv.Follow(elsewhere)
	settle(srv)
	greet := func() (*peer, []byte) {
		p := dial(t, srv)
		line, err := p.r.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		nonce, ok := auth.ParseChallenge(line[:len(line)-1])
		if !ok {
			t.Fatalf("challenge %q", line)
		}
		return p, auth.AppendResponse(nil, secret, nonce)
	}
	p, response := greet()
	p.send(response)
	p.wantSilence(srv)
	p.acquire(1, 0, 30, "k")
	p.wantNotice(codec.OpMoved, elsewhere)

	p, _ = greet()
	p.send([]byte("Xcquire\n"))
	p.wantError("auth_failed")

	p, response = greet()
	lead(t, srv, 1, 0)
	srv.Depose(1, shard.Deposed{Proposed: []uint64{0}, Leader: elsewhere})
	p.wantSilence(srv) // in the handshake: it stays
	p.send(codec.AppendAcquire(response, 1, 0, 30, "k"))
	p.wantNotice(codec.OpMoved, elsewhere)
}

// What a session is told when the lead is lost is decided by what may have been
// executed of what it asked for.
func TestDeposed(t *testing.T) {
	for _, c := range []struct {
		name string
		// ask leaves something undecided in the first shard; it returns who asked.
		ask  func(e *deposing) *peer
		lost bool // if it was proposed
	}{
		{"idle", func(e *deposing) *peer { return e.client() }, false},
		{"keep-alive only", func(e *deposing) *peer { p := e.client(); p.send([]byte("\n\n")); return p }, false},
		{"a grant", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 0, 30, e.free)
			e.turn()
			return p
		}, true},
		{"a release", func(e *deposing) *peer {
			p := e.client()
			p.release(1, e.held)
			e.turn()
			return p
		}, true},
		{"a refusal", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 0, 30, e.held)
			e.turn()
			return p
		}, false},
		{"not held", func(e *deposing) *peer {
			p := e.client()
			p.release(99, e.held)
			e.turn()
			return p
		}, false},
		{"a waiter", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 200, 30, e.held)
			e.turn()
			e.log.confirm(e.l)
			return p
		}, false},
		{"a waiter that is not confirmed", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 200, 30, e.held)
			e.turn()
			return p
		}, false},
		{"a waiter with a grant", func(e *deposing) *peer {
			p, q := e.client(), e.client()
			p.acquire(1, 200, 30, e.held)
			e.turn()
			e.log.confirm(e.l)
			settle(e.srv)
			q.release(1, e.held)
			e.turn()
			e.others = append(e.others, q)
			return p
		}, true},
		{"a waiter whose grant was confirmed, and who asked for another", func(e *deposing) *peer {
			p, q := e.client(), e.client()
			p.acquire(1, 200, 30, e.held)
			e.turn()
			q.release(1, e.held)
			e.turn()
			e.log.confirm(e.l)
			q.want(codec.OpReleased)
			p.want(codec.OpGranted)
			p.acquire(2, 200, 30, e.held)
			e.turn()
			return p
		}, false},
		{"a refusal and a grant", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 0, 30, e.held)
			e.turn()
			p.acquire(2, 0, 30, e.free)
			e.turn()
			return p
		}, true},
		{"half-closed, a grant", func(e *deposing) *peer {
			p := e.client()
			p.acquire(1, 0, 30, e.free)
			closeWrite(t, p)
			e.turn()
			return p
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachSize(t, func(t *testing.T, loops int) {
				for _, proposed := range []bool{false, true} {
					for _, leader := range []string{"", elsewhere} {
						e := newDeposing(t, loops)
						p := c.ask(e)
						d := e.log.unproposed(leader)
						if proposed {
							d = e.log.proposed(leader)
						}
						e.srv.Depose(1, d)
						switch lost := c.lost && proposed; {
						case !lost && leader == "":
							p.wantError("no_leader")
						case !lost:
							p.wantNotice(codec.OpMoved, leader)
						case leader == "":
							settle(e.srv)
							p.wantSilence(e.srv)
							e.srv.Follow(elsewhere)
							fallthrough
						default:
							p.wantNotice(codec.OpLeadershipLost, elsewhere)
						}
						for _, q := range e.others {
							q.next()
							q.wantEnd()
						}
						e.finish()
					}
				}
			})
		})
	}
}

// deposing is a leader with a key held, whose token 1 is known.
type deposing struct {
	t          *testing.T
	srv        *Server
	log        *heldLog
	l          *loop // whose shard has the keys
	held, free string
	turns      int
	others     []*peer
}

func newDeposing(t *testing.T, loops int) *deposing {
	t.Helper()
	srv, log := startMember(t, loops, nil)
	e := &deposing{t: t, srv: srv, log: log, l: srv.loops[0]}
	keys := keysOf(e.l, 2)
	e.held, e.free = keys[0], keys[1]
	lead(t, srv, 1, 1, shard.Held{Key: e.held, Token: 1, Lease: 250})
	return e
}

// client returns one on the loop farthest from the keys.
func (e *deposing) client() *peer { return dialTo(e.t, e.srv, e.srv.loops[len(e.srv.loops)-1]) }

// turn waits for the next turn of the shard.
func (e *deposing) turn() {
	e.t.Helper()
	e.turns++
	e.log.await(e.l, e.turns)
}

// finish looks that nothing is left of the lead.
func (e *deposing) finish() {
	e.t.Helper()
	wantNothingLeft(e.t, e.srv)
	if n := e.srv.budgets.Keys.Used(); n != 0 {
		e.t.Fatalf("%d keys are left", n)
	}
	for _, l := range e.srv.loops {
		if n := ask(l, func() int { return len(l.replicated.turns) + l.shard.Keys() + l.shard.Waiters() }); n != 0 {
			e.t.Fatalf("%d things left on loop %d", n, l.idx)
		}
	}
}

// An answer that was confirmed is given before the session is told to go.
func TestConfirmedBeforeDeposed(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		e := newDeposing(t, loops)
		p := e.client()
		p.acquire(1, 0, 30, e.free)
		e.turn()
		p.release(1, e.held)
		e.turn()
		d := e.log.proposed(elsewhere)
		goOn := stall(t, e.l)
		e.srv.Confirm(0, 1)
		e.srv.Depose(1, d)
		goOn()
		p.want(codec.OpGranted)
		p.wantNotice(codec.OpLeadershipLost, elsewhere)
		e.finish()
	})
}

// Whoever is owed an L and no leader comes to be known is told nothing, after 2 s.
func TestLostWithoutLeader(t *testing.T) {
	e := newDeposing(t, 1)
	p := e.client()
	p.acquire(1, 0, 30, e.free)
	e.turn()
	start := time.Now()
	e.srv.Depose(1, e.log.proposed(""))
	p.wantEnd()
	if d := time.Since(start); d < lostPatience {
		t.Fatalf("ended after %v", d)
	}
	e.finish()
}

// A client that closes its side while it is owed an L still gets it.
func TestLostAndHalfClosed(t *testing.T) {
	e := newDeposing(t, 1)
	p := e.client()
	p.acquire(1, 0, 30, e.free)
	e.turn()
	e.srv.Depose(1, e.log.proposed(""))
	settle(e.srv)
	closeWrite(t, p)
	eventually(t, "the FIN has been seen", func() bool {
		return ask(e.l, func() bool { s := e.l.slots[0].session; return s != nil && s.tail != nil })
	})
	e.srv.Follow(elsewhere)
	p.wantNotice(codec.OpLeadershipLost, elsewhere)
}

// Errors and the drain, when the lead is lost with their sessions undecided.
func TestDeposedWhileFailing(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		for _, proposed := range []bool{false, true} {
			e := newDeposing(t, loops)
			p, q := e.client(), e.client()
			p.send(append(codec.AppendAcquire(nil, 1, 0, 30, e.free), 'X'))
			e.turn()
			q.release(1, e.held)
			e.turn()
			home := e.srv.loops[loops-1]
			ask(home, func() bool { home.startDrain(); return true })
			p.wantSilence(e.srv)
			d := e.log.unproposed(elsewhere)
			if proposed {
				d = e.log.proposed(elsewhere)
			}
			e.srv.Depose(1, d)
			p.wantError("bad_op")
			if proposed {
				q.wantNotice(codec.OpLeadershipLost, elsewhere)
			} else {
				q.wantError("shutting_down")
			}
			e.finish()
		}
	})
}

// A loop that is slow to give up is waited for, for only it knows what was lost;
// what is asked of it meanwhile is not executed.
func TestDeposedWaitsForEveryLoop(t *testing.T) {
	e := newDeposing(t, 3)
	p, w, q := e.client(), e.client(), e.client()
	p.acquire(1, 0, 30, e.free)
	e.turn()
	goOn := stall(t, e.l)
	w.acquire(2, 100, 30, e.free) // on its way to the loop that is stalled
	home := e.srv.loops[2]
	eventually(t, "it is asked", func() bool { return e.srv.budgets.Acquires.Used() == 2 })
	e.srv.Depose(1, e.log.proposed(elsewhere))
	eventually(t, "the others have given up", func() bool {
		return ask(home, func() bool { return home.replicated.markers == 2 })
	})
	q.acquire(3, 0, 30, "any")
	n := 0
	for _, c := range []*peer{p, w, q} {
		c := c.Conn
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) || err == nil {
			n++
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
	}
	if n > 0 {
		t.Fatalf("%d clients were told before all loops have given up", n)
	}
	goOn()
	p.wantNotice(codec.OpLeadershipLost, elsewhere)
	w.wantNotice(codec.OpMoved, elsewhere)
	q.wantNotice(codec.OpMoved, elsewhere)
	e.finish()
}

// A session that waits for the release lane when the lead is lost is told to go,
// and the lane is free again.
func TestDeposedWithFullLane(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		e := newDeposing(t, loops)
		p, q := e.client(), e.client()
		var b []byte
		for i := range 512 {
			b = codec.AppendRelease(b, uint64(1e9+i), e.held)
		}
		p.send(b)
		eventually(t, "the lane is full", func() bool { return e.srv.budgets.Releases.Used() == 512 })
		q.release(1, e.held)
		home := e.srv.loops[loops-1]
		eventually(t, "the next one is blocked", func() bool { return ask(home, func() bool { return len(home.blocked) == 1 }) })
		e.srv.Depose(1, e.log.proposed(elsewhere))
		p.wantNotice(codec.OpMoved, elsewhere)
		q.wantNotice(codec.OpMoved, elsewhere)
		e.finish()
	})
}

// A lead after another starts from the replicated state alone: its keys with
// their full leases, its counter, and none of what was never committed.
func TestLeadAgain(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		e := newDeposing(t, loops)
		p := e.client()
		p.acquire(1, 0, 30, e.free)
		e.turn()
		goOn := stall(t, e.l)
		e.srv.Depose(7, shard.Deposed{Proposed: make([]uint64, loops)}) // not our epoch
		e.srv.Depose(1, e.log.unproposed(elsewhere))
		e.srv.Depose(1, e.log.proposed(elsewhere)) // again
		led := make(chan error, 1)
		var held []shard.Held
		for i := range 100 {
			held = append(held, shard.Held{Key: fmt.Sprint("key ", i), Token: uint64(i + 1), Lease: 1})
		}
		go func() {
			led <- e.srv.Lead(2, shard.LeadState{Counter: 1000, Keys: func(yield func(shard.Held) bool) {
				for _, h := range held {
					if !yield(h) {
						return
					}
				}
			}})
		}()
		select {
		case err := <-led:
			t.Fatalf("leads again before it has given up: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		goOn()
		p.wantNotice(codec.OpMoved, elsewhere)
		if err := <-led; err != nil {
			t.Fatal(err)
		}
		if e.srv.Leading() != 2 {
			t.Fatalf("leads %d", e.srv.Leading())
		}
		if n := e.srv.budgets.Keys.Used(); n != 100 {
			t.Fatalf("%d keys, want 100", n)
		}
		before := len(e.log.submitted(e.l))
		p = e.client()
		p.acquire(2, 0, 30, e.free)
		turn := e.log.await(e.l, before+1)
		if got, want := e.log.submitted(e.l)[before], fmt.Sprintf("g %s 1001;", e.free); got != want || turn.Epoch != 2 {
			t.Fatalf("epoch %d: records %q, want %q", turn.Epoch, got, want)
		}
		p.wantSilence(e.srv)
		e.log.confirm(e.l)
		if g := p.want(codec.OpGranted); g.Token != 1001 {
			t.Fatalf("token %d", g.Token)
		}
	})
}

// The table of keys that a cluster shares is bounded, whatever a node likes.
func TestClusterMaxKeys(t *testing.T) {
	cfg := Config{ListenAddr: "127.0.0.1:0", Loops: 1, MaxConnections: 1, MaxWaiters: 1, MaxTotalWaiters: 1, MaxKeys: ClusterMaxKeys}
	cfg.Replica = &heldLog{}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	if cfg.MaxKeys++; cfg.Validate() == nil {
		t.Fatalf("%d keys are allowed in a cluster", cfg.MaxKeys)
	}
	if cfg.Replica = nil; cfg.Validate() != nil {
		t.Fatalf("%d keys are not allowed on a single node", cfg.MaxKeys)
	}
}
