package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

// release is Ticket.Release on a goroutine of its own.
func (r *rig) release(ctx context.Context, ticket *client.Ticket) <-chan result {
	ch := make(chan result, 1)
	go func() { ch <- result{err: ticket.Release(ctx), at: r.since()} }()
	return ch
}

func TestClient_3_1_AReleaseIsSentAgainOverANewSession(t *testing.T) {
	for name, order := range map[string]scripted.Order{
		"cut after the frame":  scripted.CutAfter(),
		"cut inside the frame": scripted.CutInside(4),
		"cut inside the reply": scripted.CutReply(3, scripted.Honest()),
		"L":                    scripted.LeadershipLost("b:1"),
		"M":                    scripted.Moved("b:1"),
		"E shutting_down":      scripted.Error("shutting_down"),
		"E bad_key":            scripted.Error("bad_key"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.srv.Script(scripted.Grant(7), order)
				r.srv.Otherwise(scripted.Released())
				r.other.Otherwise(scripted.Released())
				ticket := r.must("k")
				if err := ticket.Release(r.ctx); err != nil {
					t.Fatal(err)
				}
				if r.since() > 100*ms {
					t.Fatalf("it took %v", r.since())
				}
			})
		})
	}
}

func TestClient_3_1_FiveSecondsAbsolute(t *testing.T) {
	t.Run("silence", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7), scripted.Silent())
			ticket := r.must("k")
			r.at(10 * sec)
			res := <-r.release(r.ctx, ticket)
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 15*sec)
			r.wantOpen(0) // nobody else was waiting for that session
		})
	})
	t.Run("reconnects and retries included", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7))
			ticket := r.must("k")
			r.srv.Otherwise(scripted.After(2*sec, scripted.Error("shutting_down")))
			r.srv.Conns()[0].Cut()
			r.srv.RefuseDials(2)
			res := <-r.release(r.ctx, ticket)
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 5*sec)
			if n := len(r.released()); n != 3 {
				t.Fatalf("it was sent %d times", n)
			}
		})
	})
	t.Run("never sent", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(math.MaxInt16)
			err := r.c.Release(r.ctx, "k", 7)
			wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantError(t, err, client.ErrUnavailable, client.ClassIndeterminate)
			wantError(t, err, scripted.ErrRefused, client.ClassIndeterminate)
			wantAt(t, r.since(), 5*sec)
		})
	})
	t.Run("a session on which others wait is kept", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7), scripted.After(20*sec, scripted.Grant(8)), scripted.After(6*sec, scripted.Released()))
			ticket := r.must("k")
			other := r.call(r.ctx, "other")
			r.at(0)
			res := <-r.release(r.ctx, ticket)
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 5*sec)
			r.wantOpen(1)
			if res := <-other; res.err != nil {
				t.Fatal(res.err)
			}
		})
	})
}

func TestClient_3_2_Answers(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		if err := r.must("k").Release(r.ctx); err != nil {
			t.Fatal(err)
		}
		ticket := r.must("k", client.Lease(sec))
		r.at(2 * sec)
		err := ticket.Release(r.ctx)
		wantError(t, err, client.ErrNotHeld, client.ClassNotGranted)
		var call *client.CallError
		if !errors.As(err, &call) || call.Retried || call.Op != "release" || call.Key != "k" {
			t.Fatalf("%+v", call)
		}
		wantError(t, r.c.Release(r.ctx, "k", 0), client.ErrNotHeld, client.ClassNotGranted)
	})
}

func TestClient_3_2_NotHeldAfterAnUnseenReplySaysSo(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Honest(), scripted.CutReply(0, scripted.Honest())) // it is released; nobody sees it
		ticket := r.must("k")
		err := ticket.Release(r.ctx)
		wantError(t, err, client.ErrNotHeld, client.ClassNotGranted)
		var call *client.CallError
		if !errors.As(err, &call) || !call.Retried || !strings.Contains(err.Error(), "sent more than once") {
			t.Fatalf("%v", err)
		}
	})
	bubble(t, nil, func(r *rig) { // also over two calls of the user
		r.srv.Script(scripted.Honest(), scripted.Then(scripted.Hold(scripted.Honest())))
		ticket := r.must("k")
		wantError(t, ticket.Release(r.ctx), client.ErrIndeterminate, client.ClassIndeterminate)
		err := ticket.Release(r.ctx)
		wantError(t, err, client.ErrNotHeld, client.ClassNotGranted)
		if !strings.Contains(err.Error(), "sent more than once") {
			t.Fatalf("%v", err)
		}
	})
	bubble(t, nil, func(r *rig) { // and not after one that was certainly not executed
		r.srv.Script(scripted.Grant(7), scripted.Error("no_leader"))
		r.srv.Otherwise(scripted.NotHeld())
		err := r.must("k").Release(r.ctx)
		wantError(t, err, client.ErrNotHeld, client.ClassNotGranted)
		if strings.Contains(err.Error(), "sent more than once") {
			t.Fatalf("%v", err)
		}
	})
}

func TestClient_3_2_RepliesAreMatchedByTokenAndKey(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Reorder(
			scripted.Released(), scripted.NotHeld(), scripted.Released(), scripted.NotHeld(),
		)...)
		var calls []<-chan error
		for _, key := range []string{"a", "b", "c", "d"} { // the same token on several keys
			ch := make(chan error, 1)
			go func() { ch <- r.c.Release(r.ctx, key, 7) }()
			calls = append(calls, ch)
			r.at(0)
		}
		for i, ch := range calls {
			err := settled(t, ch)
			if got := errors.Is(err, client.ErrNotHeld); got != (i%2 == 1) || (err != nil) != got {
				t.Fatalf("release %d: %v", i, err)
			}
		}
	})
	bubble(t, nil, func(r *rig) { // twice the same: one answer each
		ticket := r.must("k")
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- r.c.Release(r.ctx, "k", ticket.Token()) }()
		}
		good := 0
		for range 3 {
			if err := <-errs; err == nil {
				good++
			} else {
				wantError(t, err, client.ErrNotHeld, client.ClassNotGranted)
			}
		}
		if good != 1 {
			t.Fatalf("%d of 3 releases did it", good)
		}
	})
}

func TestClient_3_3_CompensationsAreBoundedAndTheDroppedAreVisible(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.must("first") // a session that answers
		r.srv.Conns()[0].Cut()
		r.wantOpen(0)
		r.srv.HangDials(math.MaxInt8)
		for i := range client.MaxCompensations + 10 {
			_, err := r.c.Gate(fmt.Sprint("k", i), 7, 0, 0, sec, 0) // late: to be given back
			wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
		}
		st := r.c.Stats()
		if st.CompensationsQueued != client.MaxCompensations || st.CompensationsDropped != 10 || st.CompensationsSent != 0 {
			t.Fatalf("%+v", st)
		}
		r.at(5*sec - 1)
		if st := r.c.Stats(); st.CompensationsQueued != client.MaxCompensations {
			t.Fatalf("%+v", st)
		}
		r.at(5 * sec) // from being queued
		st = r.c.Stats()
		if st.CompensationsQueued != 0 || st.CompensationsDropped != client.MaxCompensations+10 {
			t.Fatalf("%+v", st)
		}
	})
	bubble(t, nil, func(r *rig) { // one that is unanswered still counts
		r.srv.Otherwise(scripted.Silent())
		for i := range client.MaxCompensations + 1 {
			_, _ = r.c.Gate(fmt.Sprint("k", i), 7, 0, 0, sec, 0)
		}
		r.at(sec)
		st := r.c.Stats()
		if st.CompensationsSent != client.MaxCompensations || st.CompensationsDropped != 1 || st.CompensationsQueued != 0 {
			t.Fatalf("%+v", st)
		}
		if n := len(r.frames(codec.OpRelease)); n != client.MaxCompensations {
			t.Fatalf("%d releases arrived", n)
		}
		r.at(6 * sec) // given up: there is room again
		_, _ = r.c.Gate("k", 8, 0, 0, sec, 0)
		r.at(7 * sec)
		if st := r.c.Stats(); st.CompensationsSent != client.MaxCompensations+1 {
			t.Fatalf("%+v", st)
		}
	})
	bubble(t, nil, func(r *rig) { // retried like any release, counted once
		r.srv.Script(scripted.CutAfter())
		_, _ = r.c.Gate("k", 7, 0, 0, sec, 0)
		r.at(sec)
		if got := r.released(); len(got) != 2 || got[0] != "k=7" || got[1] != "k=7" {
			t.Fatalf("released %v", got)
		}
		if st := r.c.Stats(); st.CompensationsSent != 1 || st.CompensationsQueued != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestClient_5_AReleaseIsSentWhenTheContextIsDone(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		ticket, err := r.c.Acquire(ctx, "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := ticket.Release(ctx); err != nil { // its answer may be as quick as ctx
			wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantError(t, err, context.Canceled, client.ClassIndeterminate)
		}
		if got := r.released(); len(got) != 1 {
			t.Fatalf("released %v", got)
		}
		if r.srv.Held("k") != 0 {
			t.Fatal("the key is still held")
		}
		if err := ticket.Release(ctx); err != nil { // known to be released meanwhile
			t.Fatal(err)
		}
		if got := r.released(); len(got) != 1 {
			t.Fatalf("a second Release was sent: %v", got)
		}
	})
	bubble(t, nil, func(r *rig) { // ctx ends the waiting; the release keeps its 5 s
		ticket := r.must("k")
		r.srv.Conns()[0].Cut()
		r.srv.RefuseDials(6)
		ctx, cancel := context.WithTimeout(r.ctx, 10*ms)
		defer cancel()
		res := <-r.release(ctx, ticket)
		wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
		wantAt(t, res.at, 10*ms)
		if r.srv.Held("k") == 0 {
			t.Fatal("it cannot have been sent yet")
		}
		r.at(5 * sec)
		if r.srv.Held("k") != 0 {
			t.Fatal("the release was given up with its context")
		}
	})
}

func TestClient_5_ASecondRelease(t *testing.T) {
	t.Run("of a released ticket sends nothing", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			ticket := r.must("k")
			for range 3 {
				if err := ticket.Release(r.ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.released(); len(got) != 1 {
				t.Fatalf("released %v", got)
			}
		})
	})
	t.Run("of one that was not held says so again", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7), scripted.NotHeld())
			ticket := r.must("k")
			for range 2 {
				wantError(t, ticket.Release(r.ctx), client.ErrNotHeld, client.ClassNotGranted)
			}
			if got := r.released(); len(got) != 1 {
				t.Fatalf("released %v", got)
			}
		})
	})
	t.Run("joins one that is under way", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7), scripted.After(2*sec, scripted.Released()))
			ticket := r.must("k")
			one, two := r.release(r.ctx, ticket), r.release(r.ctx, ticket)
			ctx, cancel := context.WithTimeout(r.ctx, sec)
			defer cancel()
			three := <-r.release(ctx, ticket)
			wantError(t, three.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, three.at, sec)
			for _, ch := range []<-chan result{one, two} {
				res := <-ch
				if res.err != nil {
					t.Fatal(res.err)
				}
				wantAt(t, res.at, 2*sec)
			}
			if got := r.released(); len(got) != 1 {
				t.Fatalf("released %v", got)
			}
		})
	})
}
