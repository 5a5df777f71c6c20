package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

// The deadline of a call with wait 1 s that is sent 400 ms late is at 1 s; its
// frame says 1 s, so a healthy server's verdict is due at 1.4 s, and the call
// waits for it until 1.65 s.
const (
	lateBy  = 400 * ms
	dueAt   = 1400 * ms
	waitsTo = 1650 * ms
)

func lateBubble(t *testing.T, f func(r *rig)) {
	bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(lateBy, cfg.DialContext) }, f)
}

func TestClient_2_7_SettlementTakesTimeoutAndBusyAfterTheDeadline(t *testing.T) {
	for _, tc := range []struct {
		order scripted.Order
		want  error
	}{{scripted.Timeout(), client.ErrTimeout}, {scripted.Busy(), client.ErrBusy}} {
		for _, after := range []struct{ sent, seen int }{{601, 1001}, {1000, 1400}, {1249, 1649}} { // ms
			lateBubble(t, func(r *rig) {
				r.srv.Script(scripted.After(time.Duration(after.sent)*ms, tc.order))
				res := r.acquire(r.ctx, "k", client.Wait(sec))
				wantError(t, res.err, tc.want, client.ClassNotGranted)
				wantAt(t, res.at, time.Duration(after.seen)*ms)
				r.wantOpen(1)
			})
		}
	}
}

func TestClient_2_7_SettlementGivesALateGrantBack(t *testing.T) {
	for _, sent := range []int{600, 601, 1000, 1249} { // 600 ms: exactly the deadline
		lateBubble(t, func(r *rig) {
			r.srv.Script(scripted.After(time.Duration(sent)*ms, scripted.Grant(7)))
			res := r.acquire(r.ctx, "k", client.Wait(sec))
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, lateBy+time.Duration(sent)*ms)
			r.wantOpen(1)
			if got := r.released(); len(got) != 1 || got[0] != "k=7" {
				t.Fatalf("released %v, want k=7", got)
			}
		})
	}
	lateBubble(t, func(r *rig) { // 1 ms before the deadline it is in time
		r.srv.Script(scripted.After(599*ms, scripted.Grant(7)))
		if res := r.acquire(r.ctx, "k", client.Wait(sec)); res.err != nil {
			t.Fatal(res.err)
		}
	})
}

func TestClient_2_7_WithoutAVerdictExactlyThatSessionIsClosed(t *testing.T) {
	for name, order := range map[string]scripted.Order{
		"silent":       scripted.Silent(),
		"far too late": scripted.After(1251*ms, scripted.Timeout()),
	} {
		t.Run(name, func(t *testing.T) {
			lateBubble(t, func(r *rig) {
				r.srv.Script(order)
				ch := r.call(r.ctx, "k", client.Wait(sec))
				r.at(waitsTo - 1)
				pending(t, ch)
				r.wantOpen(1)
				res := <-ch
				wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
				wantAt(t, res.at, waitsTo)
				r.wantOpen(0)
				r.must("next") // over another one
				r.wantConns(2)
			})
		})
	}
	t.Run("at most 1.25 s past the deadline", func(t *testing.T) {
		// Sent 1 ns late: what is left of 10 s rounds up to 10 s.
		bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(1, cfg.DialContext) }, func(r *rig) {
			r.srv.Otherwise(scripted.Silent())
			wantAt(t, r.acquire(r.ctx, "k", client.Wait(10*sec)).at, 10*sec+250*ms+1)
		})
		bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(sec-1, cfg.DialContext) }, func(r *rig) {
			r.srv.Otherwise(scripted.Silent())
			wantAt(t, r.acquire(r.ctx, "k", client.Wait(10*sec)).at, 11*sec+250*ms-1)
		})
	})
	t.Run("the other session lives on", func(t *testing.T) {
		bubble(t, func(cfg *client.Config) { cfg.Sessions = 2 }, func(r *rig) {
			r.srv.Script(scripted.Silent())
			mute := r.call(r.ctx, "mute", client.Wait(2*sec))
			r.at(sec)
			holder := r.must("k", client.Lease(100*sec))
			r.wantOpen(2)
			waits := r.call(r.ctx, "k", client.Wait(100*sec)) // on the session that owes least
			wantError(t, (<-mute).err, client.ErrIndeterminate, client.ClassIndeterminate)
			r.wantOpen(1)
			pending(t, waits)
			if err := holder.Release(r.ctx); err != nil {
				t.Fatal(err)
			}
			if res := settled(t, waits); res.err != nil {
				t.Fatal(res.err)
			}
		})
	})
}

func TestClient_2_7_ABrokenConnectionIsIndeterminateAtOnce(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Otherwise(scripted.Silent())
		ch := r.call(r.ctx, "k", client.Wait(60*sec))
		r.at(3 * sec)
		r.srv.Conns()[0].Cut()
		res := settled(t, ch)
		wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
		wantAt(t, res.at, 3*sec)
	})
}

func TestClient_2_7_CancellationAloneClosesTheSession(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.must("k", client.Lease(100*sec))
		reason := errors.New("the caller has a reason")
		ctx, cancel := context.WithCancelCause(r.ctx)
		ch := r.call(ctx, "k", client.Wait(60*sec))
		r.at(2 * sec)
		if n := r.srv.Waiting("k"); n != 1 {
			t.Fatalf("%d waiters", n)
		}
		cancel(reason)
		res := settled(t, ch)
		wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
		wantError(t, res.err, context.Canceled, client.ClassIndeterminate)
		wantError(t, res.err, reason, client.ClassIndeterminate)
		wantAt(t, res.at, 2*sec)
		r.wantOpen(0)
		if n := r.srv.Waiting("k"); n != 0 {
			t.Fatalf("%d waiters are left at the server", n)
		}
	})
	t.Run("the last of several abandons too", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.must("k", client.Lease(100*sec))
			ctx, cancel := context.WithCancel(r.ctx)
			one, two := r.call(ctx, "k", client.Wait(60*sec)), r.call(ctx, "k", client.Wait(60*sec))
			r.wantOpen(1)
			cancel()
			settled(t, one)
			settled(t, two)
			r.wantOpen(0)
		})
	})
}

func TestClient_2_7_CancellationAmongOthersKeepsTheSession(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(
			scripted.After(5*sec, scripted.Grant(7)),    // abandoned, then granted
			scripted.After(6*sec, scripted.Timeout()),   // abandoned, then timed out
			scripted.After(90*sec, scripted.Grant(9)),   // abandoned, granted long after it was due
			scripted.After(100*sec, scripted.Grant(11)), // somebody else's
		)
		ctx, cancel := context.WithCancel(r.ctx)
		var left []<-chan result
		for _, key := range []string{"a", "b", "c"} {
			left = append(left, r.call(ctx, key, client.Wait(10*sec)))
			r.at(0)
		}
		others := r.call(r.ctx, "d", client.Wait(200*sec))
		r.at(sec)
		cancel()
		for _, ch := range left {
			res := settled(t, ch)
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, sec)
		}
		if st := r.c.Stats(); st.Abandoned != 3 || st.InFlight != 1 {
			t.Fatalf("%+v", st)
		}
		r.at(5*sec - 1)
		if got := r.released(); len(got) != 0 {
			t.Fatalf("released %v", got)
		}
		r.at(5 * sec) // at once
		if got := r.released(); len(got) != 1 || got[0] != "a=7" {
			t.Fatalf("released %v, want a=7", got)
		}
		r.at(90 * sec)
		if got := r.released(); len(got) != 2 || got[1] != "c=9" {
			t.Fatalf("released %v, want c=9", got)
		}
		r.wantOpen(1)
		if st := r.c.Stats(); st.Abandoned != 0 || st.CompensationsSent != 2 {
			t.Fatalf("%+v", st)
		}
		res := <-others
		if res.err != nil || res.ticket.Token() != 11 {
			t.Fatalf("the patient one got %v", res.err)
		}
	})
}

func TestClient_2_8_AGrantFoundLateAtTheGateIsGivenBack(t *testing.T) {
	for _, tc := range []struct {
		left time.Duration
		ok   bool
	}{{1, true}, {0, false}, {-1, false}} {
		bubble(t, nil, func(r *rig) {
			r.must("other") // there is a session
			ticket, err := r.c.Gate("k", 7, sec, tc.left, 30*sec, 0)
			if tc.ok {
				if err != nil || ticket.Token() != 7 {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
			if got := r.released(); len(got) != 1 || got[0] != "k=7" {
				t.Fatalf("released %v, want k=7", got)
			}
			r.wantOpen(1)
		})
	}
	t.Run("the context has ended", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7))
			res := r.acquire(&endsWhenAsked{Context: r.ctx}, "k")
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantError(t, res.err, context.Canceled, client.ClassIndeterminate)
			if got := r.released(); len(got) != 1 || got[0] != "k=7" {
				t.Fatalf("released %v, want k=7", got)
			}
		})
	})
}

func TestClient_2_10_TheMinWorkBudgetAgainstWhatIsLeftSinceAWasRead(t *testing.T) {
	for _, tc := range []struct {
		age, budget time.Duration
		ok          bool
	}{
		{0, 10 * sec, true},
		{1, 10 * sec, false},
		{4 * sec, 6 * sec, true},
		{4*sec + 1, 6 * sec, false},
		{10*sec - 1, 0, true},
		{10 * sec, 0, false}, // nothing left is too little for anybody
	} {
		bubble(t, nil, func(r *rig) {
			r.must("other")
			ticket, err := r.c.Gate("k", 7, tc.age, 60*sec, 10*sec, tc.budget)
			if tc.ok {
				if err != nil {
					t.Fatal(err)
				}
				if got := ticket.Deadline().Sub(r.start); got != 10*sec-tc.age {
					t.Fatalf("the ticket ends %v from now", got)
				}
				return
			}
			wantError(t, err, client.ErrNotGranted, client.ClassNotGranted)
			var short client.InsufficientLeaseError
			want := client.InsufficientLeaseError{Lease: 10 * sec, Budget: tc.budget, Left: max(0, 10*sec-tc.age)}
			if !errors.As(err, &short) || short != want {
				t.Fatalf("error is %v, want %v", err, want)
			}
			if got := r.released(); len(got) != 1 || got[0] != "k=7" {
				t.Fatalf("released %v, want k=7", got)
			}
		})
	}
	bubble(t, nil, func(r *rig) { // the wait is not part of the lease
		r.srv.Script(scripted.After(20*sec, scripted.Grant(7)))
		ticket, err := r.c.Acquire(r.ctx, "k", 10*sec, client.Lease(10*sec))
		if err != nil {
			t.Fatal(err)
		}
		if got := ticket.Deadline().Sub(r.start); got != 30*sec {
			t.Fatalf("the ticket ends after %v", got)
		}
		if f := r.frames(codec.OpAcquire)[0]; f.Lease != 10 {
			t.Fatalf("lease %d", f.Lease)
		}
	})
}
