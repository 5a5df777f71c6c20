package client_test

import (
	"context"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

func TestClient_4_MovedSteersToTheLeader(t *testing.T) {
	t.Run("an address that is not configured", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Otherwise(scripted.Moved("b:1"))
			if err := r.must("k").Release(r.ctx); err != nil {
				t.Fatal(err)
			}
			wantAt(t, r.since(), 0) // at once
			r.must("next")
			if n := len(r.srv.Frames()); n != 1 {
				t.Fatalf("%d requests went to the node that does not lead", n)
			}
		})
	})
	t.Run("every session", func(t *testing.T) {
		bubble(t, func(cfg *client.Config) { cfg.Sessions = 4 }, func(r *rig) {
			var calls []<-chan result
			ask := scripted.Func(func(c *scripted.Conn, f scripted.Frame) {})
			r.srv.Script(ask, scripted.After(sec, scripted.Moved("b:1")))
			r.srv.Otherwise(ask)
			for range 8 {
				calls = append(calls, r.call(r.ctx, "k", client.Wait(200*sec), client.Lease(sec)))
				r.at(0)
			}
			r.wantOpen(4)
			r.at(2 * sec)
			// The session that was told moved; the others still owe answers here
			// and take no new calls.
			fresh := r.call(r.ctx, "fresh")
			if res := settled(t, fresh); res.err != nil {
				t.Fatal(res.err)
			}
			if n := len(r.others()); n < 2 {
				t.Fatalf("%d acquires at the leader", n)
			}
			for _, conn := range r.srv.Conns() {
				conn.Cut()
			}
			for _, ch := range calls {
				<-ch
			}
		})
	})
	t.Run("in the order of the calls", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			var orders []scripted.Order
			for range 29 {
				orders = append(orders, scripted.Silent())
			}
			r.srv.Script(append(orders, scripted.Moved("b:1"))...)
			for range 30 {
				r.call(r.ctx, "k", client.Wait(sec))
				r.at(0)
			}
			last := uint64(0)
			for _, f := range r.others() {
				if f.ID < last {
					t.Fatalf("owner %d was sent again behind %d", f.ID, last)
				}
				last = f.ID
			}
			if last != 30 {
				t.Fatalf("the last one sent again is %d", last)
			}
			r.at(2 * sec)
		})
	})
	t.Run("a session with the old leader ends when it owes nothing", func(t *testing.T) {
		bubble(t, func(cfg *client.Config) { cfg.Sessions = 2 }, func(r *rig) {
			r.srv.Script(scripted.After(3*sec, scripted.Grant(7)))
			r.srv.Script(scripted.After(sec, scripted.Moved("b:1")))
			owed := r.call(r.ctx, "owed")
			r.at(0)
			moved := r.call(r.ctx, "moved")
			r.at(0)
			if len(r.frames(codec.OpAcquire)) != 2 {
				t.Fatal("not both were sent")
			}
			if r.frames(codec.OpAcquire)[1].Conn == 1 { // the second session was too late for it
				third := r.call(r.ctx, "third")
				defer func() { <-third }()
			}
			r.at(2 * sec)
			if res := settled(t, moved); res.err != nil {
				t.Fatal(res.err)
			}
			r.wantOpen(1)
			pending(t, owed)
			if res := <-owed; res.err != nil || res.ticket.Token() != 7 {
				t.Fatal(res.err)
			}
			r.wantOpen(0)
		})
	})
	t.Run("a connection to the old leader that comes too late is not used", func(t *testing.T) {
		var slow bool
		bubble(t, func(cfg *client.Config) {
			cfg.Sessions = 2
			dial := cfg.DialContext
			cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if slow && addr == "a:1" {
					time.Sleep(2 * sec)
				}
				slow = true
				return dial(ctx, network, addr)
			}
		}, func(r *rig) {
			r.srv.Script(scripted.After(sec, scripted.Moved("b:1")), scripted.Silent())
			one, two := r.call(r.ctx, "k"), r.call(r.ctx, "l") // the second one wants another session
			r.at(3 * sec)
			r.wantConns(2)
			for _, ch := range []<-chan result{one, two} {
				if res := settled(t, ch); res.err != nil {
					t.Fatal(res.err)
				}
			}
			r.must("m")
			r.wantOpen(0)
			if n := len(r.frames(codec.OpAcquire)); n > 2 {
				t.Fatalf("%d acquires went to the old leader", n)
			}
		})
	})
	t.Run("ping-pong backs off", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Otherwise(scripted.Moved("b:1"))
			r.other.Otherwise(scripted.Moved("a:1"))
			res := r.acquire(r.ctx, "k", client.Wait(10*sec))
			wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
			wantAt(t, res.at, 10*sec)
			if n := len(r.srv.Conns()) + len(r.other.Conns()); n > 60 {
				t.Fatalf("%d connections in 10 s", n)
			}
		})
	})
	for name, addr := range map[string]string{"itself": "a:1", "nonsense": "no address", "nothing": ""} {
		t.Run("to "+name, func(t *testing.T) {
			var dialled []string
			bubble(t, func(cfg *client.Config) {
				dial := cfg.DialContext
				cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					dialled = append(dialled, addr)
					return dial(ctx, network, addr)
				}
			}, func(r *rig) {
				r.srv.Script(scripted.Moved(addr))
				r.must("k")
				if r.since() == 0 || len(dialled) != 2 || dialled[0] != "a:1" || dialled[1] != "a:1" {
					t.Fatalf("dialled %v, want a:1 again after a moment", dialled)
				}
			})
		})
	}
}

func TestClient_4_LeadershipLost(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Honest(), scripted.Silent(), scripted.Silent(), scripted.LeadershipLost("b:1"))
		r.other.Otherwise(scripted.Released())
		ticket := r.must("k")
		acquire := r.call(r.ctx, "unanswered")
		r.at(0)
		release := r.release(r.ctx, ticket)
		r.at(0)
		last := r.call(r.ctx, "last")
		for _, ch := range []<-chan result{acquire, last} {
			res := settled(t, ch)
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 0)
		}
		if res := settled(t, release); res.err != nil { // at the new leader
			t.Fatal(res.err)
		}
		if n := len(r.others()); n != 0 {
			t.Fatal("an acquire was sent again")
		}
	})
}

func TestClient_4_SeveralAddresses(t *testing.T) {
	both := func(cfg *client.Config) { cfg.Addrs = []string{"a:1", "b:1"} }
	t.Run("the next one at once when one refuses", func(t *testing.T) {
		bubble(t, both, func(r *rig) {
			r.srv.RefuseDials(1)
			r.must("k")
			wantAt(t, r.since(), 0)
			if len(r.others()) != 1 {
				t.Fatal("it did not go to b:1")
			}
		})
	})
	t.Run("no_leader and shutting_down move on", func(t *testing.T) {
		bubble(t, both, func(r *rig) {
			r.srv.Otherwise(scripted.Error("no_leader"))
			r.must("k")
			wantAt(t, r.since(), 0)
			r.must("l")
			if n := len(r.srv.Frames()); n != 1 {
				t.Fatalf("%d requests went to a:1", n)
			}
		})
	})
	t.Run("an election is waited out", func(t *testing.T) {
		bubble(t, both, func(r *rig) {
			r.srv.Otherwise(scripted.Error("no_leader"))
			r.other.Otherwise(scripted.Error("no_leader"))
			ch := r.call(r.ctx, "k", client.Wait(10*sec))
			r.at(2 * sec)
			pending(t, ch)
			r.other.Otherwise(scripted.Honest())
			if res := <-ch; res.err != nil || res.at > 2*sec+2*client.BackoffMax {
				t.Fatal(res)
			}
		})
	})
	t.Run("one that hangs is left after a verdict that did not come", func(t *testing.T) {
		bubble(t, both, func(r *rig) {
			r.srv.Otherwise(scripted.Silent())
			res := r.acquire(r.ctx, "k", client.Wait(sec))
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			r.must("k", client.Wait(0))
			if len(r.others()) != 1 {
				t.Fatal("it did not go to b:1")
			}
		})
		bubble(t, both, func(r *rig) { // or after an answer to a release
			r.srv.Otherwise(scripted.Silent())
			r.other.Otherwise(scripted.Released())
			wantError(t, r.c.Release(r.ctx, "k", 7), client.ErrIndeterminate, client.ClassIndeterminate)
			if err := r.c.Release(r.ctx, "k", 7); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("one that is gone without a word does not use up an immediate attempt", func(t *testing.T) {
		bubble(t, both, func(r *rig) {
			r.srv.HangDials(math.MaxInt8)
			r.must("k", client.Wait(0))
			if r.since() >= 5*sec {
				t.Fatalf("it took %v", r.since())
			}
		})
	})
}

func TestClient_4_ReconnectsBackOffWithJitter(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.must("first") // a session that has worked deserves another connection at once
		r.srv.Conns()[0].Cut()
		synctest.Wait()
		r.must("second")
		wantAt(t, r.since(), 0)
	})
	var tries [2][]time.Duration
	for i := range tries {
		var start time.Time
		bubble(t, func(cfg *client.Config) {
			start = time.Now()
			cfg.DialContext = func(context.Context, string, string) (net.Conn, error) {
				tries[i] = append(tries[i], time.Since(start))
				return nil, scripted.ErrRefused
			}
		}, func(r *rig) {
			r.acquire(r.ctx, "k", client.Wait(60*sec))
		})
	}
	var gaps [2][]time.Duration
	for i, at := range tries {
		for n := 1; n < len(at); n++ {
			gap := at[n] - at[n-1]
			limit := min(client.BackoffMax, 25*ms<<min(n-1, 6))
			if gap < limit/2 || gap > limit {
				t.Errorf("delay %d is %v, want %v to %v", n, gap, limit/2, limit)
			}
			gaps[i] = append(gaps[i], gap)
		}
	}
	if len(gaps[0]) < 60 || len(gaps[0]) > 130 {
		t.Errorf("%d tries in 60 s", len(gaps[0]))
	}
	same := 0
	for n := range min(len(gaps[0]), len(gaps[1])) {
		if gaps[0][n] == gaps[1][n] {
			same++
		}
	}
	if same > 3 {
		t.Errorf("two clients had the same delay %d times: there is no jitter", same)
	}
}
