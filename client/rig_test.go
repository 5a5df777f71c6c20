package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

// rig is a client and a scripted server in a bubble of virtual time. The tests
// are named after the paragraph of client.md that they hold.
type rig struct {
	*testing.T
	ctx   context.Context
	srv   *scripted.Server // at a:1, where the client is sent
	other *scripted.Server // at b:1
	c     *client.Client
	start time.Time

	addresses scripted.Network
}

// bubble runs f with a client of one session to a:1; change may change its Config.
// When f is done everything is closed, and synctest fails the test if a
// goroutine is left.
func bubble(t *testing.T, change func(*client.Config), f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		servers := scripted.Network{"a:1": scripted.New(), "b:1": scripted.New()}
		defer servers.Close()
		cfg := client.Config{Addrs: []string{"a:1"}, Sessions: 1, DialContext: servers.DialContext}
		if change != nil {
			change(&cfg)
		}
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(&rig{T: t, ctx: t.Context(), srv: servers["a:1"], other: servers["b:1"], c: c,
			start: time.Now(), addresses: servers})
	})
}

// result is how a call ended, and when, counted from the bubble's start.
type result struct {
	ticket *client.Ticket
	err    error
	at     time.Duration
}

func (r *rig) acquire(ctx context.Context, key string, opts ...client.Option) result {
	ticket, err := r.c.Acquire(ctx, key, 0, opts...)
	if (ticket == nil) == (err == nil) {
		r.Errorf("a ticket and an error exclude each other: %v, %v", ticket, err)
	}
	return result{ticket, err, time.Since(r.start)}
}

// call is acquire on a goroutine of its own.
func (r *rig) call(ctx context.Context, key string, opts ...client.Option) <-chan result {
	ch := make(chan result, 1)
	go func() { ch <- r.acquire(ctx, key, opts...) }()
	return ch
}

// must acquires a key that is free.
func (r *rig) must(key string, opts ...client.Option) *client.Ticket {
	r.Helper()
	res := r.acquire(r.ctx, key, opts...)
	if res.err != nil {
		r.Fatalf("acquire %s: %v", key, res.err)
	}
	return res.ticket
}

// settled fails when a channel that should have a result has none.
func settled[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	synctest.Wait()
	select {
	case v := <-ch:
		return v
	default:
		t.Fatal("the call has not returned")
		panic("unreachable")
	}
}

func pending[T any](t testing.TB, ch <-chan T) {
	t.Helper()
	synctest.Wait()
	select {
	case v := <-ch:
		t.Fatalf("the call has returned early: %v", v)
	default:
	}
}

// wantError checks sentinel and class, and that no other class matches.
func wantError(t testing.TB, err, sentinel error, class client.Class) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Fatalf("error is %v, want %v", err, sentinel)
	}
	if got := client.ClassOf(err); got != class {
		t.Fatalf("class of %v is %v, want %v", err, got, class)
	}
	for c, marker := range map[client.Class]error{
		client.ClassNotGranted:    client.ErrNotGranted,
		client.ClassNotExecuted:   client.ErrNotExecuted,
		client.ClassIndeterminate: client.ErrIndeterminate,
	} {
		if errors.Is(err, marker) != (c == class) {
			t.Fatalf("error %v of class %v: errors.Is(%v) is %v", err, class, marker, c != class)
		}
	}
}

func wantAt(t testing.TB, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Fatalf("it ended after %v, want %v", got, want)
	}
}

// frames returns what arrived of one op, in short form.
func (r *rig) frames(op codec.Op) []scripted.Frame {
	synctest.Wait()
	var got []scripted.Frame
	for _, f := range r.srv.Frames() {
		if f.Op == op {
			got = append(got, f)
		}
	}
	return got
}

// others returns the acquires that arrived at b:1.
func (r *rig) others() []scripted.Frame {
	synctest.Wait()
	var got []scripted.Frame
	for _, f := range r.other.Frames() {
		if f.Op == codec.OpAcquire {
			got = append(got, f)
		}
	}
	return got
}

// released returns key=token of every release that arrived.
func (r *rig) released() []string {
	var got []string
	for _, f := range r.frames(codec.OpRelease) {
		got = append(got, fmt.Sprintf("%s=%d", f.Key, f.ID))
	}
	return got
}

// at sleeps until that long after the start.
func (r *rig) at(d time.Duration) {
	time.Sleep(d - time.Since(r.start))
	synctest.Wait()
}

func (r *rig) wantOpen(n int) {
	r.Helper()
	synctest.Wait()
	if got := r.srv.Open(); got != n {
		r.Fatalf("%d connections are open, want %d", got, n)
	}
}

func (r *rig) wantConns(n int) {
	r.Helper()
	synctest.Wait()
	if got := len(r.srv.Conns()); got != n {
		r.Fatalf("%d connections were made, want %d", got, n)
	}
}

const (
	ms  = time.Millisecond
	sec = time.Second
)

func (r *rig) since() time.Duration { return time.Since(r.start) }
