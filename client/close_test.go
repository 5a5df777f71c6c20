package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"ticketing/client"
	"ticketing/client/scripted"
)

func TestClient_4_CloseWithEverythingInFlight(t *testing.T) {
	bubble(t, func(cfg *client.Config) { cfg.Sessions = 2 }, func(r *rig) {
		r.srv.Script(scripted.Honest(), scripted.Honest(), scripted.Silent(), scripted.Stall(3))
		r.srv.Script(scripted.Silent(), scripted.Silent(), scripted.Stall(0))
		ticket, second := r.must("a"), r.must("b")
		var acquires []<-chan result
		for i := range 20 {
			acquires = append(acquires, r.call(r.ctx, fmt.Sprint("k", i), client.Wait(200*sec)))
			r.at(0)
		}
		release := r.release(r.ctx, ticket)
		r.at(sec)
		_ = r.c.Close()
		if took := r.since() - sec; took > 250*ms {
			t.Fatalf("Close took %v", took)
		}
		classes := map[client.Class]int{}
		for _, ch := range acquires {
			res := settled(t, ch)
			wantError(t, res.err, client.ErrClosed, client.ClassOf(res.err))
			wantAt(t, res.at, sec) // not when the releases are done
			classes[client.ClassOf(res.err)]++
		}
		if classes[client.ClassNotExecuted] == 0 || classes[client.ClassIndeterminate] == 0 || len(classes) != 2 {
			t.Fatalf("classes %v, want both those that were sent and those that were not", classes)
		}
		wantError(t, settled(t, release).err, client.ErrIndeterminate, client.ClassIndeterminate)

		_, err := r.c.Acquire(r.ctx, "k", 0)
		wantError(t, err, client.ErrClosed, client.ClassNotExecuted)
		wantError(t, second.Release(r.ctx), client.ErrClosed, client.ClassNotExecuted)
		wantError(t, r.c.Release(r.ctx, "k", 1), client.ErrClosed, client.ClassNotExecuted)
		if err := r.c.Close(); err != nil {
			t.Fatal(err)
		}
		if st := r.c.Stats(); st.InFlight != 0 || st.Queued != 0 || st.Sessions != 0 {
			t.Fatalf("%+v", st)
		}
		// bubble's end fails the test if a goroutine of the client is left.
	})
}

func TestClient_4_CloseLetsReleasesOfDoneContextsGo(t *testing.T) {
	// What a program does that is interrupted: its deferred Release has a done
	// context, and its deferred Close comes right behind it.
	bubble(t, nil, func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		ticket, err := r.c.Acquire(ctx, "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		_ = ticket.Release(ctx)
		_ = r.c.Close()
		if r.srv.Held("k") != 0 {
			t.Fatal("the key is held until its lease ends")
		}
		wantAt(t, r.since(), 0)
	})
	// The same for a grant that comes while Close waits for another's release.
	bubble(t, nil, func(r *rig) {
		r.srv.Script(scripted.Grant(7), scripted.After(100*ms, scripted.Grant(8)), scripted.After(200*ms, scripted.Released()))
		ticket := r.must("k")
		late := r.call(r.ctx, "late")
		r.at(0)
		release := r.release(r.ctx, ticket)
		r.at(0)
		_ = r.c.Close()
		wantAt(t, r.since(), 200*ms)
		wantError(t, settled(t, late).err, client.ErrIndeterminate, client.ClassIndeterminate)
		if err := settled(t, release).err; err != nil {
			t.Fatal(err)
		}
		if got := r.released(); len(got) != 2 || got[1] != "late=8" {
			t.Fatalf("released %v", got)
		}
	})
}

func TestClient_4_CloseWhileConnecting(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"dialing":    func(r *rig) { r.srv.HangDials(math.MaxInt8) },
		"backoff":    func(r *rig) { r.srv.RefuseDials(math.MaxInt16) },
		"handshake":  func(r *rig) {}, // no challenge comes
		"never used": nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, withSecret, func(r *rig) {
				var ch <-chan result
				if prepare != nil {
					prepare(r)
					ch = r.call(r.ctx, "k")
					r.at(sec)
				}
				before := r.since()
				_ = r.c.Close()
				wantAt(t, r.since(), before)
				if ch != nil {
					wantError(t, settled(t, ch).err, client.ErrClosed, client.ClassNotExecuted)
				}
			})
		})
	}
}

func TestClient_4_NoGoroutineOutlivesCloseOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := scripted.New()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		l.Close()
		<-served
		srv.Close()
	}()
	for range 20 {
		c, err := client.New(client.Config{Addrs: []string{l.Addr().String()}})
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := c.Acquire(t.Context(), "k", 0)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := c.Acquire(t.Context(), "k", 0)
			waiting <- err
		}()
		for c.Stats().InFlight == 0 && c.Stats().Queued == 0 {
		}
		if err := ticket.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-waiting // a ticket or an error; either way it has ended
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
		if token := srv.Held("k"); token != 0 {
			other, _ := client.New(client.Config{Addrs: []string{l.Addr().String()}})
			_ = other.Release(t.Context(), "k", token)
			_ = other.Close()
		}
	}
}

func TestClient_4_NothingIsLoggedUnlessAskedFor(t *testing.T) {
	old := slog.Default()
	defer slog.SetDefault(old)
	var global, own bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&global, nil)))
	for _, logger := range []*slog.Logger{nil, slog.New(slog.NewTextHandler(&own, nil))} {
		bubble(t, func(cfg *client.Config) { cfg.Logger = logger }, func(r *rig) {
			r.srv.RefuseDials(1)
			r.srv.Script(scripted.Unasked([]byte("T12345678k\n"), scripted.Error("no_leader")))
			r.must("k")
			_ = r.c.Close()
		})
	}
	if global.Len() > 0 {
		t.Errorf("the default logger got %s", &global)
	}
	for _, want := range []string{"no session", "session opened", "session ended", "matches nothing"} {
		if !strings.Contains(own.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &own)
		}
	}
}

func TestClient_5_NewChecksItsConfig(t *testing.T) {
	for name, cfg := range map[string]client.Config{
		"no address":      {},
		"no port":         {Addrs: []string{"a"}},
		"port 0":          {Addrs: []string{"a:0"}},
		"port by name":    {Addrs: []string{"a:http"}},
		"no host":         {Addrs: []string{":1"}},
		"twice":           {Addrs: []string{"a:1", "a:1"}},
		"second is wrong": {Addrs: []string{"a:1", "b"}},
		"sessions -1":     {Addrs: []string{"a:1"}, Sessions: -1},
		"sessions 1025":   {Addrs: []string{"a:1"}, Sessions: 1025},
	} {
		if c, err := client.New(cfg); err == nil {
			c.Close()
			t.Errorf("%s: New took it", name)
		}
	}
	c, err := client.New(client.Config{Addrs: []string{"a:1", "[::1]:65535"}, Sessions: 1024})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestClient_5_ContextsThatEndAreTheCallersOwn(t *testing.T) {
	// A dial that fails with a timeout of its own must not look like one.
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(client.Config{Addrs: []string{"a:1"},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("dial: %w", errors.Join(ctx.Err(), io.ErrUnexpectedEOF))
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Acquire(t.Context(), "k", 0, client.Wait(10*sec))
		wantError(t, err, client.ErrUnavailable, client.ClassNotExecuted)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}
