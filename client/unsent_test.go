package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

// faultyConn lets a Write pass some bytes and then fails it, once the rule
// says so. Its Read goes on until it is closed.
type faultyConn struct {
	net.Conn
	mu    sync.Mutex
	fault func(p []byte) (pass int, err error) // nil error: all of p passes
}

func (f *faultyConn) Write(p []byte) (int, error) {
	f.mu.Lock()
	pass, err := f.fault(p)
	f.mu.Unlock()
	if err == nil {
		return f.Conn.Write(p)
	}
	n := 0
	if pass > 0 {
		n, _ = f.Conn.Write(p[:pass])
	}
	return n, err
}

var errFault = errors.New("the test broke this Write")

// once makes the first connection's Write fail after pass bytes; later
// connections are sound.
func once(pass int, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	used := false
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil || used {
			return conn, err
		}
		used = true
		return &faultyConn{Conn: conn, fault: func([]byte) (int, error) { return pass, errFault }}, nil
	}
}

// Where a byte may leave on a plain connection: in Write, and how far it came
// is what it returns.
func TestClient_2_5_AWriteThatFailsBeforeTheFirstByteIsCertainlyUnsent(t *testing.T) {
	bubble(t, func(cfg *client.Config) { cfg.DialContext = once(0, cfg.DialContext) }, func(r *rig) {
		ticket := r.must("k")
		if ticket.Token() != 1 {
			t.Fatalf("token %d", ticket.Token())
		}
		r.wantConns(2)
		frames := r.frames(codec.OpAcquire)
		if len(frames) != 1 || frames[0].Conn != 2 || frames[0].ID != 1 {
			t.Fatalf("frames %+v, want owner 1 on connection 2 alone", frames)
		}
	})
}

func TestClient_2_5_AWriteThatFailsBehindTheFirstByteIsNeverSentAgain(t *testing.T) {
	for _, pass := range []int{1, 5, 12} { // the frame has 13 bytes
		bubble(t, func(cfg *client.Config) { cfg.DialContext = once(pass, cfg.DialContext) }, func(r *rig) {
			res := r.acquire(r.ctx, "k")
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			wantError(t, res.err, errFault, client.ClassIndeterminate)
			if res.at > 20*ms { // the socket is read for what the server said before
				t.Fatalf("it took %v", res.at)
			}
			r.at(60 * sec)
			if n := len(r.frames(codec.OpAcquire)); n != 0 {
				t.Fatalf("after %d bytes it was sent again", pass)
			}
		})
	}
}

func TestClient_2_5_InABatchEachFrameIsJudgedByItsFirstByte(t *testing.T) {
	const size = 13 // of a frame with a key of one byte
	for pass := 0; pass <= 3*size; pass++ {
		bubble(t, func(cfg *client.Config) {
			// Until the connection is there all three are queued: one Write
			// carries them.
			cfg.DialContext = slowDials(sec, once(pass, cfg.DialContext))
		}, func(r *rig) {
			r.srv.Script(scripted.Silent(), scripted.Silent(), scripted.Silent())
			var calls []<-chan result
			for _, key := range []string{"a", "b", "c"} {
				calls = append(calls, r.call(r.ctx, key))
				r.at(0) // one after another
			}
			r.at(3 * sec)
			for i, ch := range calls {
				res := settled(t, ch)
				// Frame i begins at byte i*size: with pass > i*size a byte of it
				// may have left.
				if begun := pass > i*size; begun {
					wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
				} else if res.err != nil {
					t.Fatalf("pass %d, frame %d: %v", pass, i, res.err)
				}
			}
		})
	}
}

func TestClient_2_5_AWriteThatIsBlockedAndThenCut(t *testing.T) {
	for _, tc := range []struct {
		read int // bytes the server reads before it stalls
		sent bool
	}{{0, false}, {1, true}, {7, true}} {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Stall(tc.read))
			ch := r.call(r.ctx, "k")
			r.at(sec)
			pending(t, ch)
			r.srv.Conns()[0].Cut()
			res := <-ch
			if tc.sent {
				wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
				wantAt(t, res.at, sec)
			} else if res.err != nil {
				t.Fatalf("nothing was read, and the call ended with %v", res.err)
			}
		})
	}
}

// short is a transport that breaks the contract of io.Writer.
func TestClient_2_5_AnImpossibleCountIsTakenForAllOfIt(t *testing.T) {
	for _, n := range []int{-1, 1000} {
		bubble(t, func(cfg *client.Config) {
			dial := cfg.DialContext
			cfg.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return &liar{conn, n}, err
			}
		}, func(r *rig) {
			res := r.acquire(r.ctx, "k")
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
		})
	}
}

type liar struct {
	net.Conn
	n int
}

func (l *liar) Write([]byte) (int, error) { return l.n, io.ErrShortWrite }

func TestClient_2_5_TheServerSaysThatNothingWasExecuted(t *testing.T) {
	for name, order := range map[string]scripted.Order{
		"M":               scripted.Moved("b:1"),
		"E no_leader":     scripted.Error("no_leader"),
		"E shutting_down": scripted.Error("shutting_down"),
		"E auth_failed":   scripted.Error("auth_failed"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.srv.Script(scripted.Then(scripted.Func(func(*scripted.Conn, scripted.Frame) { time.Sleep(1500 * ms) }), order))
				res := r.acquire(r.ctx, "k", client.Wait(10*sec))
				if res.err != nil {
					t.Fatal(res.err)
				}
				first := r.frames(codec.OpAcquire)[0]
				again := append(r.frames(codec.OpAcquire)[1:], r.others()...)
				if len(again) != 1 || again[0].ID != first.ID || first.Wait != 10 || again[0].Wait != 9 {
					t.Fatalf("first %+v, then %+v; want the same owner and what is left of the wait", first, again)
				}
			})
		})
	}
}

func TestClient_2_5_OtherErrorsOfTheServerAreIndeterminate(t *testing.T) {
	for _, reason := range []string{"bad_op", "bad_request", "bad_lease", "bad_key", "line_too_long", "no_such_reason", ""} {
		bubble(t, nil, func(r *rig) {
			r.srv.Script(scripted.Error(reason))
			res := r.acquire(r.ctx, "k")
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			var byPointer *client.ServerError
			var byValue client.ServerError
			if !errors.As(res.err, &byPointer) || !errors.As(res.err, &byValue) || byValue.Reason != reason {
				t.Fatalf("E %s: %v", reason, res.err)
			}
			wantAt(t, res.at, 0)
		})
	}
}

func TestClient_2_5_ACutAnywhereBehindTheFirstByte(t *testing.T) {
	for name, order := range map[string]scripted.Order{
		"after the frame":          scripted.CutAfter(),
		"inside the frame":         scripted.CutInside(9),
		"before the reply":         scripted.CutReply(0, scripted.Grant(7)),
		"inside the reply":         scripted.CutReply(10, scripted.Grant(7)),
		"a byte before its end":    scripted.CutReply(18, scripted.Grant(7)),
		"a reply that is no reply": scripted.Raw([]byte("Hello\n")),
		"grant with token 0":       scripted.Grant(0),
		"grant of another key":     scripted.Func(func(c *scripted.Conn, f scripted.Frame) { c.Send(codec.AppendGranted(nil, 7, f.ID, "other")) }),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				r.srv.Script(order)
				res := r.acquire(r.ctx, "k")
				wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
				wantAt(t, res.at, 0)
				r.at(60 * sec)
				r.wantOpen(0)
				r.wantConns(1)
			})
		})
	}
}
