package client_test

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

func TestClient_2_1_OneDeadlineOverQueueReconnectsAndReply(t *testing.T) {
	t.Run("no server", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(math.MaxInt16)
			res := r.acquire(r.ctx, "k", client.Wait(1500*ms)) // normalised: 2 s
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			wantAt(t, res.at, 2*sec)
		})
	})
	t.Run("a server that moves its clients on for ever", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Otherwise(scripted.After(400*ms, scripted.Error("shutting_down")))
			res := r.acquire(r.ctx, "k", client.Wait(3*sec))
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			if res.at != 3*sec && res.at > 3*sec+1250*ms {
				t.Fatalf("it ended after %v", res.at)
			}
			frames := r.frames(codec.OpAcquire)
			if len(frames) < 2 || frames[0].Wait != 3 || frames[len(frames)-1].Wait != 1 {
				t.Fatalf("frames %+v: want waits that fall from 3 to 1", frames)
			}
		})
	})
	t.Run("the context ends it sooner", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Otherwise(scripted.Silent())
			ctx, cancel := context.WithTimeout(r.ctx, 700*ms)
			defer cancel()
			res := r.acquire(ctx, "k", client.Wait(2*sec))
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 700*ms)
		})
	})
	t.Run("the context does not end it later", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(math.MaxInt16)
			ctx, cancel := context.WithTimeout(r.ctx, time.Hour)
			defer cancel()
			wantAt(t, r.acquire(ctx, "k", client.Wait(2*sec)).at, 2*sec)
		})
	})
}

func TestClient_2_2_ANewOwnerForEachCallKeptOverRetries(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Error("shutting_down"))
		r.srv.Script(scripted.Error("no_leader"))
		seen := map[uint64]bool{}
		var calls []<-chan result
		for range 50 {
			calls = append(calls, r.call(r.ctx, "k", client.Wait(5*sec)))
		}
		r.at(6 * sec)
		for _, ch := range calls {
			settled(t, ch)
		}
		for _, f := range r.frames(codec.OpAcquire) {
			if f.ID == 0 {
				t.Fatal("owner 0")
			}
			seen[f.ID] = true
		}
		if len(seen) != 50 {
			t.Fatalf("%d owners for 50 calls", len(seen))
		}
		last := map[uint64]int{} // connection, by owner
		for _, f := range r.frames(codec.OpAcquire) {
			last[f.ID] = f.Conn
		}
		for owner, conn := range last {
			if conn != 3 {
				t.Fatalf("owner %d was last seen on connection %d: its retry has another owner", owner, conn)
			}
		}
	})
}

func TestClient_2_2_OwnersFailClosedBeforeTheyWrap(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.c.SetLastOwner(math.MaxUint64 - 1)
		r.must("a")
		if f := r.frames(codec.OpAcquire)[0]; f.ID != math.MaxUint64 {
			t.Fatalf("owner %d", f.ID)
		}
		for range 3 {
			_, err := r.c.Acquire(r.ctx, "b", 0)
			wantError(t, err, client.ErrOwnersExhausted, client.ClassNotExecuted)
		}
		if n := len(r.frames(codec.OpAcquire)); n != 1 {
			t.Fatalf("%d frames were sent", n)
		}
	})
}

// slowDials makes each dial take d.
func slowDials(d time.Duration, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case <-time.After(d):
			return dial(ctx, network, addr)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestClient_2_3_TheFrameCarriesWhatIsLeftOfTheWaitRoundedUp(t *testing.T) {
	for _, tc := range []struct {
		late time.Duration
		wait time.Duration
		want uint8
	}{
		{0, 255 * sec, 255},
		{1, 255 * sec, 255},
		{sec, 255 * sec, 254},
		{2500 * ms, 10 * sec, 8},
		{3 * sec, 10 * sec, 7},
		{999 * ms, sec, 1},
	} {
		bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(tc.late, cfg.DialContext) }, func(r *rig) {
			r.acquire(r.ctx, "k", client.Wait(tc.wait))
			if f := r.frames(codec.OpAcquire); len(f) != 1 || f[0].Wait != tc.want {
				t.Errorf("%v late, wait %v: frames %+v, want wait %d", tc.late, tc.wait, f, tc.want)
			}
		})
	}
}

func TestClient_2_4_WaitZeroIsOneImmediateAttempt(t *testing.T) {
	t.Run("held", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.must("k")
			res := r.acquire(r.ctx, "k", client.Wait(0))
			wantError(t, res.err, client.ErrTimeout, client.ClassNotGranted)
			wantAt(t, res.at, 0)
			if f := r.frames(codec.OpAcquire)[1]; f.Wait != 0 {
				t.Fatalf("wire wait %d", f.Wait)
			}
		})
	})
	t.Run("its transport deadline is 5 s", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(math.MaxInt16)
			res := r.acquire(r.ctx, "k", client.Wait(0))
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			wantAt(t, res.at, 5*sec)
		})
	})
	t.Run("sent and silent", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Otherwise(scripted.Silent())
			res := r.acquire(r.ctx, "k", client.Wait(0))
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantAt(t, res.at, 5*sec)
			r.wantOpen(0)
		})
	})
	t.Run("late, and 0 all the same", func(t *testing.T) {
		bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(4*sec, cfg.DialContext) }, func(r *rig) {
			r.must("k", client.Wait(0))
			if f := r.frames(codec.OpAcquire)[0]; f.Wait != 0 {
				t.Fatalf("wire wait %d", f.Wait)
			}
		})
	})
	t.Run("another connection while certainly unsent", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(2)
			r.srv.Script(scripted.Error("no_leader"))
			r.must("k", client.Wait(0))
			r.wantConns(2)
		})
	})
	t.Run("no other connection once sent", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.CutAfter())
			res := r.acquire(r.ctx, "k", client.Wait(0))
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			r.at(10 * sec)
			if n := len(r.frames(codec.OpAcquire)); n != 1 {
				t.Fatalf("sent %d times", n)
			}
		})
	})
}

func TestClient_2_6_DeadlineInTheLocalQueueIsATimeoutAndNothingIsSent(t *testing.T) {
	t.Run("behind a writer that is blocked", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Honest(), scripted.Stall(0))
			r.must("first")
			stuck := r.call(r.ctx, "stuck", client.Wait(30*sec))
			r.at(sec)
			queued := r.call(r.ctx, "queued", client.Wait(2*sec))
			r.at(3*sec - 1)
			pending(t, queued)
			res := <-queued
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			wantAt(t, res.at, 3*sec)
			if errors.Is(res.err, client.ErrUnavailable) {
				t.Fatalf("there was a session: %v", res.err)
			}
			pending(t, stuck)
			r.srv.Conns()[0].Cut()
			r.at(40 * sec)
			for _, f := range r.frames(codec.OpAcquire) {
				if f.Key == "queued" {
					t.Fatal("it was sent after it had been reported as never sent")
				}
			}
		})
	})
	t.Run("without a session the reason is told", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.RefuseDials(math.MaxInt16)
			res := r.acquire(r.ctx, "k", client.Wait(sec))
			wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			wantError(t, res.err, scripted.ErrRefused, client.ClassNotExecuted)
		})
	})
	t.Run("while still connecting", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.HangDials(math.MaxInt8)
			res := r.acquire(r.ctx, "k", client.Wait(sec))
			wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
			wantAt(t, res.at, sec)
			if errors.Is(res.err, context.DeadlineExceeded) {
				t.Fatalf("no context of the caller has ended: %v", res.err)
			}
		})
	})
	t.Run("at the very instant", func(t *testing.T) {
		for range 20 { // the connection is there in the moment of the deadline
			bubble(t, func(cfg *client.Config) { cfg.DialContext = slowDials(sec, cfg.DialContext) }, func(r *rig) {
				res := r.acquire(r.ctx, "k", client.Wait(sec))
				wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
				if n := len(r.frames(codec.OpAcquire)); n != 0 {
					t.Fatal("it was sent")
				}
			})
		}
	})
	t.Run("the context ends it", func(t *testing.T) {
		bubble(t, nil, func(r *rig) { // and nothing is sent when the server comes
			r.srv.HangDials(1)
			ctx, cancel := context.WithCancel(r.ctx)
			left, stays := r.call(ctx, "left"), r.call(r.ctx, "stays")
			r.at(sec)
			cancel()
			wantError(t, settled(t, left).err, context.Canceled, client.ClassNotExecuted)
			if res := <-stays; res.err != nil {
				t.Fatal(res.err)
			}
			for _, f := range r.frames(codec.OpAcquire) {
				if f.Key == "left" {
					t.Fatal("it was sent after it had been reported as never sent")
				}
			}
		})
		bubble(t, nil, func(r *rig) {
			r.srv.HangDials(math.MaxInt8)
			ctx, cancel := context.WithTimeout(r.ctx, sec)
			defer cancel()
			res := r.acquire(ctx, "k")
			wantError(t, res.err, client.ErrTimeout, client.ClassNotExecuted)
			wantError(t, res.err, context.DeadlineExceeded, client.ClassNotExecuted)
			wantAt(t, res.at, sec)

			reason := errors.New("the caller has a reason")
			cancelled, stop := context.WithCancelCause(r.ctx)
			ch := r.call(cancelled, "k")
			r.at(2 * sec)
			stop(reason)
			res = settled(t, ch)
			wantError(t, res.err, context.Canceled, client.ClassNotExecuted)
			wantError(t, res.err, reason, client.ClassNotExecuted)

			res = r.acquire(cancelled, "k") // done before it began
			wantError(t, res.err, context.Canceled, client.ClassNotExecuted)
			if st := r.c.Stats(); st.Queued != 0 {
				t.Fatalf("%+v", st)
			}
		})
	})
}

func TestClient_2_9_TimeoutAndBusyAreFinal(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Timeout(), scripted.Busy(), scripted.Timeout(), scripted.Busy())
		res := r.acquire(r.ctx, "k")
		wantError(t, res.err, client.ErrTimeout, client.ClassNotGranted)
		res = r.acquire(r.ctx, "k")
		wantError(t, res.err, client.ErrBusy, client.ClassNotGranted)
		// A context that ends at the same moment changes nothing once the
		// verdict is matched: it is what the caller gets.
		for _, want := range []error{client.ErrTimeout, client.ErrBusy} {
			ctx := &endsWhenAsked{Context: r.ctx}
			res = r.acquire(ctx, "k")
			wantError(t, res.err, want, client.ClassNotGranted)
		}
		if n := len(r.frames(codec.OpAcquire)); n != 4 {
			t.Fatalf("%d attempts were sent for 4 calls", n)
		}
	})
}

// endsWhenAsked is a context that has ended whenever it is asked after the
// first time, and whose Done never says so.
type endsWhenAsked struct {
	context.Context
	asked bool
}

func (c *endsWhenAsked) Done() <-chan struct{} { return nil }

func (c *endsWhenAsked) Err() error {
	if c.asked {
		return context.Canceled
	}
	c.asked = true
	return nil
}
