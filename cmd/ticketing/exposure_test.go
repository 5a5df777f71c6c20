package main

import (
	"strings"
	"syscall"
	"testing"
)

// An admin endpoint that other machines reach is said aloud, and one that they
// do not reach is not.
func TestOpenAdminIsSaidAloud(t *testing.T) {
	const warning = "level=WARN msg=\"the admin endpoint asks for no password"
	s := start(t, command(t, nil, "--admin-addr=0.0.0.0:0"))
	s.logs(0, warning)
	quiet := start(t, command(t, nil))
	quiet.signal(syscall.SIGTERM)
	quiet.exits(exitDone)
	if text, _ := quiet.log.look(); strings.Contains(text, warning) {
		t.Errorf("a warning on loopback: %s", text)
	}
}

// Nothing that the admin endpoint serves tells the secret, wherever that came
// from: whoever reads metrics need not be who may lock.
func TestAdminTellsNoSecret(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	path := t.TempDir() + "/secrets"
	writeFile(t, path, secret+"\n")
	for _, s := range []*server{
		start(t, command(t, nil, "--auth-secret="+secret)),
		start(t, command(t, []string{"AUTH_SECRET=" + secret})),
		start(t, command(t, []string{"AUTH_SECRET_FILE=" + path})),
	} {
		if !s.dial().authenticate(secret) {
			t.Fatal("the secret is not accepted")
		}
		for _, page := range []string{
			"/", "/metrics", "/status", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2",
			"/debug/pprof/heap?debug=1",
		} {
			code, body := s.get(page)
			if code != 200 || strings.Contains(body, secret) {
				t.Errorf("%s: %d, tells the secret: %v", page, code, strings.Contains(body, secret))
			}
		}
	}
}
