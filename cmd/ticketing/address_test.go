package main

import (
	"context"
	"testing"
)

func TestResolve(t *testing.T) {
	for given, want := range map[string]struct {
		addr     string
		loopback bool
	}{
		"127.0.0.1:7400":          {"127.0.0.1:7400", true},
		"127.9.9.9:0":             {"127.9.9.9:0", true},
		"[::1]:7400":              {"[::1]:7400", true},
		"[::ffff:127.0.0.1]:7400": {"[::ffff:127.0.0.1]:7400", true},
		"localhost:7400":          {"127.0.0.1:7400", true},
		"0.0.0.0:7400":            {"0.0.0.0:7400", false},
		"[::]:7400":               {"[::]:7400", false},
		"[::ffff:0.0.0.0]:7400":   {"[::ffff:0.0.0.0]:7400", false},
		":7400":                   {":7400", false},
		"10.0.0.1:7400":           {"10.0.0.1:7400", false},
		"128.0.0.1:7400":          {"128.0.0.1:7400", false},
		"[fe80::1%lo]:7400":       {"[fe80::1%lo]:7400", false},
	} {
		got, err := resolve(context.Background(), listenSetting, given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if got.addr != want.addr || got.loopback != want.loopback {
			t.Errorf("%s: %s, loopback %v; want %s, %v", given, got.addr, got.loopback, want.addr, want.loopback)
		}
	}
}

// A name that means nothing is the environment's fault, not bound anywhere.
func TestResolveUnknownHost(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no resolver is asked
	_, err := resolve(ctx, listenSetting, "no-such-host.invalid:7400")
	if exitCode(err) != exitEnvironment {
		t.Errorf("%v: exit code %d", err, exitCode(err))
	}
}
