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
			bubble(t, nil, func(r *rig) {
				r.srv.Script(scripted.Moved(addr))
				r.must("k") // here, after a moment
				r.wantConns(2)
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
