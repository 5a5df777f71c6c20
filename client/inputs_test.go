package client_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/codec"
)

func TestClient_1_WaitAndLeaseAreRoundedUpAndNeverClamped(t *testing.T) {
	for _, tc := range []struct {
		name        string
		opts        []client.Option
		wait, lease uint8
		field       string // of the error; "": accepted
	}{
		{"defaults", nil, 30, 30, ""},
		{"wait 0", []client.Option{client.Wait(0)}, 0, 30, ""},
		{"wait 1 ns", []client.Option{client.Wait(1)}, 1, 30, ""},
		{"wait 254.5 s", []client.Option{client.Wait(254500 * ms)}, 255, 30, ""},
		{"wait 255 s", []client.Option{client.Wait(255 * sec)}, 255, 30, ""},
		{"wait 255 s and 1 ns", []client.Option{client.Wait(255*sec + 1)}, 0, 0, "wait"},
		{"wait -1 ns", []client.Option{client.Wait(-1)}, 0, 0, "wait"},
		{"wait for ever", []client.Option{client.Wait(math.MaxInt64)}, 0, 0, "wait"},
		{"lease 1 ns", []client.Option{client.Lease(1)}, 30, 1, ""},
		{"lease 249.1 s", []client.Option{client.Lease(249100 * ms)}, 30, 250, ""},
		{"lease 250 s", []client.Option{client.Lease(250 * sec)}, 30, 250, ""},
		{"lease 250 s and 1 ns", []client.Option{client.Lease(250*sec + 1)}, 0, 0, "lease"},
		{"lease 0", []client.Option{client.Lease(0)}, 0, 0, "lease"},
		{"lease -1 s", []client.Option{client.Lease(-sec)}, 0, 0, "lease"},
		{"the last option counts", []client.Option{client.Wait(999 * sec), client.Wait(sec), {}}, 1, 30, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				_, err := r.c.Acquire(r.ctx, "k", 0, tc.opts...)
				if tc.field == "" {
					f := r.frames(codec.OpAcquire)[0]
					if err != nil || f.Wait != tc.wait || f.Lease != tc.lease {
						t.Fatalf("wait %d, lease %d, error %v; want %d and %d", f.Wait, f.Lease, err, tc.wait, tc.lease)
					}
					return
				}
				wantError(t, err, client.ErrNotExecuted, client.ClassNotExecuted)
				var byPointer *client.UnsupportedDurationError
				var byValue client.UnsupportedDurationError
				if !errors.As(err, &byPointer) || !errors.As(err, &byValue) || *byPointer != byValue {
					t.Fatalf("error is %v (%T)", err, err)
				}
				if byValue.Field != tc.field || byValue.Min >= byValue.Max {
					t.Fatalf("error is %+v, want field %s", byValue, tc.field)
				}
				r.wantConns(0)
			})
		})
	}
}

func TestClient_1_MinWorkBudget(t *testing.T) {
	for _, tc := range []struct {
		budget, lease time.Duration
		want          any
	}{
		{0, sec, nil},
		{sec, sec, nil},
		{sec + 1, 1001 * ms, nil}, // the normalised lease is 2 s
		{sec + 1, sec, &client.InsufficientLeaseError{Lease: sec, Budget: sec + 1, Left: sec}},
		{250 * sec, 250 * sec, nil},
		{250*sec + 1, 250 * sec, &client.UnsupportedDurationError{
			Field: "min work budget", Value: 250*sec + 1, Min: 0, Max: 250 * sec}},
		{-1, sec, &client.UnsupportedDurationError{Field: "min work budget", Value: -1, Min: 0, Max: 250 * sec}},
	} {
		bubble(t, nil, func(r *rig) {
			_, err := r.c.Acquire(r.ctx, "k", tc.budget, client.Lease(tc.lease))
			if tc.want == nil {
				if err != nil {
					t.Errorf("budget %v of lease %v: %v", tc.budget, tc.lease, err)
				}
				return
			}
			wantError(t, err, client.ErrNotExecuted, client.ClassNotExecuted)
			switch want := tc.want.(type) {
			case *client.InsufficientLeaseError:
				var got client.InsufficientLeaseError
				if !errors.As(err, &got) || got != *want {
					t.Errorf("budget %v of lease %v: %v", tc.budget, tc.lease, err)
				}
			case *client.UnsupportedDurationError:
				var got client.UnsupportedDurationError
				if !errors.As(err, &got) || got != *want {
					t.Errorf("budget %v of lease %v: %v", tc.budget, tc.lease, err)
				}
			}
			r.wantConns(0)
		})
	}
}

func TestClient_1_Key(t *testing.T) {
	for key, reason := range map[string]string{
		"":                       "empty",
		strings.Repeat("x", 129): "128 bytes",
		"a b":                    "space",
		"a\nb":                   "newline",
		"a\r":                    "carriage return",
		"\ra":                    "carriage return",
		"a\xffb":                 "UTF-8",
	} {
		bubble(t, nil, func(r *rig) {
			for _, call := range []func() error{
				func() error { _, err := r.c.Acquire(r.ctx, key, 0); return err },
				func() error { return r.c.Release(r.ctx, key, 1) },
			} {
				err := call()
				wantError(t, err, client.ErrNotExecuted, client.ClassNotExecuted)
				var bad *client.InvalidKeyError
				if !errors.As(err, &bad) || bad.Key != key || !strings.Contains(bad.Reason, reason) {
					t.Errorf("key %q: error %v", key, err)
				}
			}
			r.wantConns(0)
		})
	}
	bubble(t, nil, func(r *rig) {
		for _, key := range []string{"x", strings.Repeat("x", 128), "a\tb\x00", strings.Repeat("é", 64)} {
			if err := r.must(key).Release(r.ctx); err != nil {
				t.Errorf("key %q: %v", key, err)
			}
		}
	})
}
