package scripted_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"ticketing/auth"
	"ticketing/client/scripted"
	"ticketing/codec"
)

func TestHonestQueueIsFirstInFirstOut(t *testing.T) {
	bubble(t, nil, func(p *peer) {
		start := time.Now()
		p.send(acquire(1), acquire(2), acquire(3), codec.AppendAcquire(nil, 4, 0, 30, "k"), codec.AppendAcquire(nil, 5, 30, 2, "other"))
		p.want(codec.AppendGranted(nil, 1, 1, "k"), codec.AppendTimeout(nil, 4, "k"), codec.AppendGranted(nil, 2, 5, "other"))
		if p.srv.Held("k") != 1 || p.srv.Waiting("k") != 2 {
			t.Fatalf("held by %d, %d wait", p.srv.Held("k"), p.srv.Waiting("k"))
		}
		p.send(codec.AppendRelease(nil, 9, "k"), codec.AppendRelease(nil, 1, "k"))
		p.want(codec.AppendNotHeld(nil, 9, "k"), codec.AppendReleased(nil, 1, "k"), codec.AppendGranted(nil, 3, 2, "k"))
		p.want(codec.AppendTimeout(nil, 3, "k")) // its wait of 10 s is over
		if time.Since(start) != 10*time.Second {
			t.Fatalf("after %v", time.Since(start))
		}
		p.send(codec.AppendRelease(nil, 1, "k")) // twice
		p.want(codec.AppendNotHeld(nil, 1, "k"))
		if p.srv.Held("other") != 0 || p.srv.Granted("k") != 2 {
			t.Fatal("the lease of 2 s has not ended, or the count is wrong")
		}
	})
}

func TestHonestLeaseHandsOver(t *testing.T) {
	bubble(t, nil, func(p *peer) {
		start := time.Now()
		p.send(codec.AppendAcquire(nil, 1, 0, 2, "k"), codec.AppendAcquire(nil, 2, 5, 30, "k"))
		p.want(codec.AppendGranted(nil, 1, 1, "k"), codec.AppendGranted(nil, 2, 2, "k"))
		if time.Since(start) != 2*time.Second {
			t.Fatalf("after %v", time.Since(start))
		}
		p.send(codec.AppendRelease(nil, 1, "k"))
		p.want(codec.AppendNotHeld(nil, 1, "k"))
	})
}

func TestHonestConnectionsTakeTheirWaitersAlong(t *testing.T) {
	bubble(t, nil, func(p *peer) {
		p.send(acquire(1))
		p.want(codec.AppendGranted(nil, 1, 1, "k"))
		other := p.dial()
		if _, err := other.Write(acquire(2)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p.srv.Waiting("k") != 1 {
			t.Fatal("it does not wait")
		}
		other.Close()
		synctest.Wait()
		if p.srv.Waiting("k") != 0 || p.srv.Held("k") != 1 {
			t.Fatal("its waiter is left, or the holder is gone")
		}
		p.conn.Close()
		synctest.Wait()
		if p.srv.Held("k") != 1 {
			t.Fatal("what was granted went with its connection")
		}
	})
}

func TestSecrets(t *testing.T) {
	for answer, want := range map[string]string{"right": "", "wrong": "Eauth_failed\n", "long": "Eline_too_long\n"} {
		bubble(t, func(srv *scripted.Server) {
			if err := srv.Secret([]byte("s")); err != nil {
				t.Fatal(err)
			}
		}, func(p *peer) {
			line := make([]byte, len("C SHA-256 12345678\n"))
			if _, err := p.conn.Read(line); err != nil {
				t.Fatal(err)
			}
			nonce, ok := auth.ParseChallenge(line[:len(line)-1])
			if !ok {
				t.Fatalf("challenge %q", line)
			}
			switch answer {
			case "right":
				p.send(auth.AppendResponse(nil, []byte("s"), nonce), acquire(1))
				p.want(codec.AppendGranted(nil, 1, 1, "k"))
				return
			case "wrong":
				p.send(auth.AppendResponse(nil, []byte("t"), nonce), acquire(1))
			case "long":
				p.send(make([]byte, 300))
			}
			p.want([]byte(want))
			p.wantEnd()
			if len(p.srv.Frames()) != 0 {
				t.Fatal("a request was taken")
			}
		})
	}
}

func TestDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := scripted.New()
		net := scripted.Network{"a:1": srv}
		defer net.Close()
		srv.RefuseDials(1)
		srv.HangDials(1)
		if _, err := net.DialContext(t.Context(), "tcp", "a:1"); !errors.Is(err, scripted.ErrRefused) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := net.DialContext(ctx, "tcp", "a:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := net.DialContext(t.Context(), "tcp", "b:1"); !errors.Is(err, scripted.ErrRefused) {
			t.Fatal(err)
		}
		conn, err := net.DialContext(t.Context(), "tcp", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		srv.Close()
		if _, err := net.DialContext(t.Context(), "tcp", "a:1"); !errors.Is(err, scripted.ErrRefused) {
			t.Fatal("a closed server took a connection")
		}
	})
}

// Over TCP the last reply reaches a client that goes on sending.
func TestTheLastReplyIsReadOverTCP(t *testing.T) {
	srv := scripted.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		l.Close()
		<-served
		srv.Close()
	}()
	for range 20 {
		srv.Script(scripted.Error("shutting_down"))
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		for owner := range uint64(100) {
			_, _ = conn.Write(acquire(owner))
		}
		p := &peer{T: t, srv: srv, conn: conn}
		p.want([]byte("Eshutting_down\n"))
		p.wantEnd()
		conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if f, err := srv.Await(ctx, 20); err != nil || f.Conn != 20 {
		t.Fatal(f, err)
	}
	cancel()
	if _, err := srv.Await(ctx, 21); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
