package client_test

import (
	"errors"
	"strings"
	"testing"

	"ticketing/client"
)

var secret = []byte("a secret")

func withSecret(cfg *client.Config) { cfg.Secret = secret }

// wantRefused wants the clear error of a server that will never do.
func wantRefused(t *testing.T, r *rig, text string) {
	t.Helper()
	res := r.acquire(r.ctx, "k", client.Wait(30*sec))
	wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
	var h *client.HandshakeError
	if !errors.As(res.err, &h) || !strings.Contains(res.err.Error(), text) {
		t.Fatalf("error is %v, want a HandshakeError that says %q", res.err, text)
	}
}

func TestClient_4_Authentication(t *testing.T) {
	bubble(t, withSecret, func(r *rig) {
		if err := r.srv.Secret([]byte("the old one"), secret); err != nil {
			t.Fatal(err)
		}
		if err := r.must("k").Release(r.ctx); err != nil {
			t.Fatal(err)
		}
		wantAt(t, r.since(), 0)
	})
}

func TestClient_4_ASecretAndNoChallengeIsAClearError(t *testing.T) {
	bubble(t, withSecret, func(r *rig) {
		wantRefused(t, r, "a secret is configured and the server sends no challenge")
		if r.since() > 20*sec {
			t.Fatalf("it took %v", r.since())
		}
		if n := len(r.srv.Frames()); n != 0 {
			t.Fatal("a request was sent before the handshake")
		}
	})
	bubble(t, withSecret, func(r *rig) { // an immediate attempt is told too
		res := r.acquire(r.ctx, "k", client.Wait(0))
		wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
		wantAt(t, res.at, 5*sec)
		if !strings.Contains(res.err.Error(), "sends no challenge") {
			t.Fatal(res.err)
		}
	})
	bubble(t, withSecret, func(r *rig) { // and one that ends while the first challenge is waited for
		res := r.acquire(r.ctx, "k", client.Wait(sec))
		wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
		if !strings.Contains(res.err.Error(), "sends no challenge") {
			t.Fatal(res.err)
		}
	})
	for _, line := range []string{"Hello\n", "C MD5 aaaaaaaa\n", strings.Repeat("x", 300), "\n"} {
		bubble(t, withSecret, func(r *rig) {
			r.srv.Greeting(line)
			wantRefused(t, r, "is no challenge")
			if r.since() > 2*sec {
				t.Fatalf("it took %v", r.since())
			}
		})
	}
}

func TestClient_4_AChallengeAndNoSecretIsAClearError(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		if err := r.srv.Secret(secret); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, r, "the server demands authentication and no secret is configured")
		if r.since() > 2*sec {
			t.Fatalf("it took %v", r.since())
		}
		// A release is told as well, and is never taken for success.
		err := r.c.Release(r.ctx, "k", 7)
		wantError(t, err, client.ErrIndeterminate, client.ClassIndeterminate)
		wantError(t, err, client.ErrUnavailable, client.ClassIndeterminate)
	})
}

func TestClient_4_AWrongSecretIsAClearError(t *testing.T) {
	bubble(t, withSecret, func(r *rig) {
		if err := r.srv.Secret([]byte("another")); err != nil {
			t.Fatal(err)
		}
		res := r.acquire(r.ctx, "k", client.Wait(30*sec))
		wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
		var said client.ServerError
		if !errors.As(res.err, &said) || said.Reason != "auth_failed" {
			t.Fatal(res.err)
		}
		if r.since() > 2*sec {
			t.Fatalf("it took %v", r.since())
		}
	})
	bubble(t, withSecret, func(r *rig) { // a rotation is waited out
		if err := r.srv.Secret([]byte("another")); err != nil {
			t.Fatal(err)
		}
		ch := r.call(r.ctx, "k")
		r.at(100 * ms)
		pending(t, ch)
		if err := r.srv.Secret(secret); err != nil {
			t.Fatal(err)
		}
		if res := <-ch; res.err != nil {
			t.Fatal(res.err)
		}
	})
}

func TestClient_4_EInPlaceOfAChallenge(t *testing.T) {
	bubble(t, withSecret, func(r *rig) {
		r.srv.Greeting("Eshutting_down\n")
		res := r.acquire(r.ctx, "k", client.Wait(2*sec))
		wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
		wantAt(t, res.at, 2*sec)
		var said *client.ServerError
		if !errors.As(res.err, &said) || said.Reason != "shutting_down" {
			t.Fatal(res.err)
		}
	})
}

func TestClient_4_ASilentChallengeIsCutOff(t *testing.T) {
	// Also when the server dies inside its line.
	bubble(t, withSecret, func(r *rig) {
		r.srv.Greeting("C SHA-256 aaaa")
		wantRefused(t, r, "sends no challenge")
		r.wantOpen(0)
	})
}
