package client_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
)

func TestClient_5_TicketContextEndsWithTheLease(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.After(2*sec, scripted.Grant(7)))
		ticket := r.must("k", client.Lease(10*sec))
		if got := ticket.Deadline().Sub(r.start); got != 12*sec {
			t.Fatalf("deadline after %v", got)
		}
		ctx, cancel := ticket.Context(r.ctx)
		defer cancel()
		if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(ticket.Deadline()) {
			t.Fatal("the context has another deadline")
		}
		<-ctx.Done()
		wantAt(t, r.since(), 12*sec)
		if context.Cause(ctx) != client.ErrLeaseExpired || ctx.Err() != context.DeadlineExceeded {
			t.Fatalf("%v, %v", context.Cause(ctx), ctx.Err())
		}
	})
	bubble(t, nil, func(r *rig) { // or with its parent, and the parent's cause
		ticket := r.must("k", client.Lease(10*sec))
		reason := errors.New("enough")
		parent, stop := context.WithCancelCause(r.ctx)
		ctx, cancel := ticket.Context(parent)
		defer cancel()
		stop(reason)
		<-ctx.Done()
		if context.Cause(ctx) != reason {
			t.Fatal(context.Cause(ctx))
		}
		short, cancelShort := context.WithTimeout(r.ctx, sec)
		defer cancelShort()
		ctx, cancel = ticket.Context(short)
		defer cancel()
		<-ctx.Done()
		if context.Cause(ctx) != context.DeadlineExceeded {
			t.Fatal(context.Cause(ctx))
		}
	})
	if client.ClassOf(client.ErrLeaseExpired) != client.ClassNone || client.ClassOf(nil) != client.ClassNone {
		t.Fatal("a class for what is no error of a call")
	}
}

func TestClient_5_Do(t *testing.T) {
	failed := errors.New("fn failed")
	bubble(t, nil, func(r *rig) {
		for _, want := range []error{nil, failed} {
			ran := false
			err := r.c.Do(r.ctx, "k", sec, func(ctx context.Context, ticket *client.Ticket) error {
				ran = true
				if r.srv.Held("k") != ticket.Token() {
					t.Error("fn runs without the key")
				}
				if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(ticket.Deadline()) {
					t.Error("fn's context does not end with the lease")
				}
				return want
			}, client.Lease(2*sec))
			if err != want || !ran || r.srv.Held("k") != 0 {
				t.Fatalf("error %v, ran %v, holder %d", err, ran, r.srv.Held("k"))
			}
		}
	})
	t.Run("not granted, not run", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.must("k")
			err := r.c.Do(r.ctx, "k", 0, func(context.Context, *client.Ticket) error {
				t.Error("fn has run")
				return nil
			}, client.Wait(0))
			wantError(t, err, client.ErrTimeout, client.ClassNotGranted)
			if _, ok := errors.AsType[*client.ReleaseError](err); ok {
				t.Fatal("it says that fn ran")
			}
		})
	})
	t.Run("panic", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			defer func() {
				if got := recover(); got != "boom" {
					t.Fatalf("recovered %v", got)
				}
				if r.srv.Held("k") != 0 {
					t.Fatal("the key is still held")
				}
			}()
			_ = r.c.Do(r.ctx, "k", 0, func(context.Context, *client.Ticket) error { panic("boom") })
		})
	})
	t.Run("Goexit", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = r.c.Do(r.ctx, "k", 0, func(context.Context, *client.Ticket) error { runtime.Goexit(); return nil })
			}()
			<-done
			if r.srv.Held("k") != 0 {
				t.Fatal("the key is still held")
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			ctx, cancel := context.WithCancel(r.ctx)
			err := r.c.Do(ctx, "k", 0, func(ctx context.Context, _ *client.Ticket) error {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			})
			if err != context.Canceled || r.srv.Held("k") != 0 {
				t.Fatalf("error %v, holder %d", err, r.srv.Held("k"))
			}
		})
	})
	t.Run("the lease ends first", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			err := r.c.Do(r.ctx, "k", 0, func(ctx context.Context, _ *client.Ticket) error {
				<-ctx.Done()
				time.Sleep(sec)
				return context.Cause(ctx)
			}, client.Lease(2*sec))
			released, ok := errors.AsType[*client.ReleaseError](err)
			if !ok || !errors.Is(err, client.ErrLeaseExpired) || !errors.Is(released, client.ErrNotHeld) {
				t.Fatal(err)
			}
		})
	})
	t.Run("fn released it", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			err := r.c.Do(r.ctx, "k", 0, func(ctx context.Context, ticket *client.Ticket) error { return ticket.Release(ctx) })
			if err != nil || len(r.released()) != 1 {
				t.Fatalf("error %v, released %v", err, r.released())
			}
		})
	})
	t.Run("the release is not answered", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Grant(7), scripted.Silent())
			err := r.c.Do(r.ctx, "k", 0, func(context.Context, *client.Ticket) error { return nil })
			if _, ok := errors.AsType[*client.ReleaseError](err); !ok {
				t.Fatal(err)
			}
			wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, r.since(), 5*sec)
		})
	})
}

func TestClient_4_TheTokenIsTheFencingToken(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		last := uint64(0)
		for range 10 {
			ticket := r.must("k", client.Lease(sec))
			if ticket.Token() <= last {
				t.Fatalf("token %d after %d", ticket.Token(), last)
			}
			last = ticket.Token()
			time.Sleep(sec)
		}
	})
}

func TestClient_5_Stats(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		if st := r.c.Stats(); st != (client.Stats{}) {
			t.Fatalf("%+v", st)
		}
		r.srv.HangDials(1)
		ctx, cancel := context.WithCancel(r.ctx)
		left := r.call(ctx, "k", client.Wait(60*sec))
		stays := r.call(r.ctx, "k", client.Wait(60*sec))
		r.at(0)
		if st := r.c.Stats(); st != (client.Stats{Queued: 2}) {
			t.Fatalf("%+v", st)
		}
		r.srv.Script(scripted.Silent(), scripted.Silent())
		r.at(6 * sec)
		if st := r.c.Stats(); st != (client.Stats{InFlight: 2, Sessions: 1, Connects: 1, Writes: 1, Frames: 2}) {
			t.Fatalf("%+v", st)
		}
		cancel()
		settled(t, left)
		if st := r.c.Stats(); st != (client.Stats{InFlight: 1, Abandoned: 1, Sessions: 1, Connects: 1, Writes: 1, Frames: 2}) {
			t.Fatalf("%+v", st)
		}
		r.srv.Conns()[0].Cut()
		settled(t, stays)
		if st := r.c.Stats(); st != (client.Stats{Connects: 1, Writes: 1, Frames: 2}) {
			t.Fatalf("%+v", st)
		}
	})
}
