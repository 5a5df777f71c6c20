package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

func TestClient_4_TenThousandGoroutinesOnTwoConnections(t *testing.T) {
	bubble(t, func(cfg *client.Config) { cfg.Sessions = 0 }, func(r *rig) {
		const goroutines = 10_000
		r.must("warm")
		var wg sync.WaitGroup
		var inside [100]atomic.Int32
		for i := range goroutines {
			wg.Go(func() {
				key := i % len(inside)
				ticket, err := r.c.Acquire(r.ctx, fmt.Sprint("key", key), 0, client.Wait(100*sec))
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside[key].Add(1); n != 1 {
					t.Errorf("%d holders of key %d", n, key)
				}
				inside[key].Add(-1)
				if err := ticket.Release(r.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.wantConns(2)
		st := r.c.Stats()
		if st.InFlight != 0 || st.Queued != 0 || st.Unmatched != 0 {
			t.Fatalf("%+v", st)
		}
		if st.Frames != 2*goroutines+1 || st.Writes > st.Frames/2 {
			t.Fatalf("%d frames in %d writes", st.Frames, st.Writes)
		}
	})
}

func TestClient_4_OneThatWaits255SecondsHoldsUpNobody(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.must("held", client.Lease(250*sec))
		r.at(sec)
		patient := r.call(r.ctx, "held", client.Wait(255*sec))
		for range 100 {
			before := r.since()
			if err := r.must("free").Release(r.ctx); err != nil {
				t.Fatal(err)
			}
			if r.since() != before {
				t.Fatal("it was held up")
			}
		}
		pending(t, patient)
		res := <-patient
		if res.err != nil {
			t.Fatal(res.err)
		}
		wantAt(t, res.at, 250*sec)
		r.wantConns(1)
	})
}

// The show of the issue: 1,000 waiters on one session; half time out, a tenth
// cancel, the rest are granted; no connection is lost.
func TestClient_4_AThousandWaitersOnOneSession(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		holder := r.must("k", client.Lease(100*sec))
		var wg sync.WaitGroup
		var granted, timedOut, cancelled atomic.Int32
		impatient, cancel := context.WithCancel(r.ctx)
		defer cancel()
		for i := range 1000 {
			wg.Go(func() {
				ctx, wait := r.ctx, 100*sec
				switch {
				case i%2 == 0:
					wait = sec * 5
				case i%10 == 1:
					ctx = impatient
				}
				ticket, err := r.c.Acquire(ctx, "k", 0, client.Wait(wait))
				switch {
				case err == nil:
					granted.Add(1)
					if err := ticket.Release(r.ctx); err != nil {
						t.Error(err)
					}
				case errors.Is(err, context.Canceled):
					wantErrorAsync(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
					cancelled.Add(1)
				default:
					wantErrorAsync(t, err, client.ErrTimeout, client.ClassNotGranted)
					timedOut.Add(1)
				}
			})
		}
		r.at(3 * sec)
		if n := r.srv.Waiting("k"); n != 1000 {
			t.Fatalf("%d waiters", n)
		}
		cancel()
		r.at(10 * sec)
		if err := holder.Release(r.ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if granted.Load() != 400 || timedOut.Load() != 500 || cancelled.Load() != 100 {
			t.Fatalf("%d granted, %d timed out, %d cancelled", granted.Load(), timedOut.Load(), cancelled.Load())
		}
		r.wantOpen(1)
		r.wantConns(1)
		// The abandoned were granted too, in their turn, and gave it back.
		st := r.c.Stats()
		if st.CompensationsSent != 100 || st.CompensationsDropped != 0 || st.Abandoned != 0 || st.Unmatched != 0 {
			t.Fatalf("%+v", st)
		}
		if r.srv.Held("k") != 0 {
			t.Fatal("the key is still held")
		}
	})
}

// wantErrorAsync is wantError for goroutines that are not the test's.
func wantErrorAsync(t *testing.T, err, sentinel error, class client.Class) {
	if !errors.Is(err, sentinel) || client.ClassOf(err) != class {
		t.Errorf("error is %v of class %v, want %v of %v", err, client.ClassOf(err), sentinel, class)
	}
}

func TestClient_4_ManyFramesGoOutInOneWrite(t *testing.T) {
	bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(sec, cfg.DialContext) }, func(r *rig) {
		var calls []<-chan result
		for i := range 200 {
			calls = append(calls, r.call(r.ctx, fmt.Sprint("k", i)))
		}
		for _, ch := range calls {
			if res := <-ch; res.err != nil {
				t.Fatal(res.err)
			}
		}
		if st := r.c.Stats(); st.Frames != 200 || st.Writes != 1 {
			t.Fatalf("%d frames in %d writes", st.Frames, st.Writes)
		}
	})
}

func TestClient_4_RepliesInAnyOrder(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Reorder(
			scripted.Grant(3), scripted.Timeout(), scripted.Busy(), scripted.Grant(9), scripted.Released(),
		)...)
		var calls []<-chan result
		for _, key := range []string{"a", "b", "c", "d"} {
			calls = append(calls, r.call(r.ctx, key))
			r.at(0)
		}
		if err := r.c.Release(r.ctx, "e", 5); err != nil {
			t.Fatal(err)
		}
		if res := settled(t, calls[0]); res.err != nil || res.ticket.Token() != 3 || res.ticket.Key() != "a" {
			t.Fatal(res)
		}
		wantError(t, settled(t, calls[1]).err, client.ErrTimeout, client.ClassNotGranted)
		wantError(t, settled(t, calls[2]).err, client.ErrBusy, client.ClassNotGranted)
		if res := settled(t, calls[3]); res.err != nil || res.ticket.Token() != 9 {
			t.Fatal(res)
		}
	})
}

func TestClient_4_RepliesNobodyAskedForChangeNothing(t *testing.T) {
	unasked := [][]byte{
		codec.AppendGranted(nil, 7, 99, "k"), // nobody's grant: to release it could release somebody's lock
		codec.AppendTimeout(nil, 99, "k"),
		codec.AppendBusy(nil, 0, "k"),
		codec.AppendReleased(nil, 7, "k"),
		codec.AppendNotHeld(nil, 7, "k"),
		codec.AppendGranted(nil, 6, 2, "k"), // a second answer to an attempt that was answered
	}
	bubble(t, nil, func(r *rig) {
		r.must("first")
		orders := []scripted.Order{}
		for _, frame := range unasked {
			orders = append(orders, scripted.Raw(frame))
		}
		r.srv.Conns()[0].Cut()
		r.srv.Script(scripted.Honest(), scripted.Then(append(orders, scripted.Honest())...))
		r.must("second")
		third := r.must("third")
		if err := third.Release(r.ctx); err != nil {
			t.Fatal(err)
		}
		if got := r.released(); len(got) != 1 {
			t.Fatalf("released %v", got)
		}
		if st := r.c.Stats(); st.Unmatched != uint64(len(unasked)) || st.Sessions != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestClient_4_ASecondSessionIsOpenedWhenCallsOverlap(t *testing.T) {
	bubble(t, func(cfg *client.Config) { cfg.Sessions = 3 }, func(r *rig) {
		r.wantConns(0) // lazily
		for range 20 {
			if err := r.must("k").Release(r.ctx); err != nil {
				t.Fatal(err)
			}
		}
		r.wantConns(1)
		r.must("held", client.Lease(100*sec))
		for i := range 10 {
			r.call(r.ctx, "held", client.Wait(sec))
			r.wantConns(max(1, min(i+1, 3)))
		}
	})
}
