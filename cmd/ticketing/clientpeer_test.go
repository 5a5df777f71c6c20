package main

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"ticketing/client/scripted"
)

// peer is a scripted server that client commands reach.
type peer struct {
	*scripted.Server
	addr string
}

// newPeer starts one that does the same with every frame. With a configuration
// it speaks TLS.
func newPeer(t *testing.T, cfg *tls.Config, otherwise scripted.Order) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if cfg != nil {
		l = tls.NewListener(l, cfg)
	}
	p := &peer{scripted.New(), addr}
	p.Otherwise(otherwise)
	served := make(chan struct{})
	go func() {
		defer close(served)
		p.Serve(l)
	}()
	t.Cleanup(func() {
		l.Close()
		<-served
		p.Close()
	})
	return p
}

// awaits waits for the n-th request.
func (p *peer) awaits(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := p.Await(ctx, n); err != nil {
		t.Fatal(err)
	}
}

// Every way a call can end has its exit code, and one line on stderr.
func TestExitCodesOfCalls(t *testing.T) {
	t.Parallel() // it waits more than it works
	var all []*running
	cases := []struct {
		name  string
		order scripted.Order
		args  string
		code  int
		says  string
	}{
		{"granted", scripted.Grant(18446744073709551615), "acquire k", exitDone, ""},
		{"timeout", scripted.Timeout(), "acquire k", exitTimeout, "the wait ended without a grant (not granted)"},
		{"busy", scripted.Busy(), "acquire k", exitBusy, "a limit of the server is reached (not granted)"},
		{"cut", scripted.CutAfter(), "acquire k", exitIndeterminate, "indeterminate: "},
		{"silence", scripted.Silent(), "acquire k --wait=1s", exitIndeterminate, "indeterminate: "},
		{"error", scripted.Error("bad_op"), "acquire k", exitIndeterminate, `the server says "bad_op"`},
		{"nobody", scripted.Order{}, "acquire k --wait=1s", exitNoSession, "no session with a server could be had"},
		{"refused", scripted.Error("auth_failed"), "acquire k --wait=2s", exitNoSession, "auth_failed"},
		{"too late", scripted.Grant(1), "acquire k --lease=1s --min-work-budget=1s", exitTimeout, "less than the min work budget"},
		{"locked", scripted.Busy(), "lock k -- echo was run", exitBusy, "a limit of the server is reached"},
		{"released", scripted.Released(), "release k 7", exitDone, ""},
		{"not held", scripted.NotHeld(), "release k 7", exitNotHeld, "the token did not hold the key"},
		{"release: silence", scripted.Silent(), "release k 7", exitIndeterminate, "indeterminate: "},
		{"release: cut", scripted.CutAfter(), "release k 7", exitIndeterminate, "indeterminate: "},
		{"release: nobody", scripted.Order{}, "release k 7", exitNoSession, "no session with a server could be had"},
	}
	for _, c := range cases {
		addr := "127.0.0.1:1" // where nobody listens
		if !strings.Contains(c.name, "nobody") {
			addr = newPeer(t, nil, c.order).addr
		}
		all = append(all, launch(t, clientCommand(nil, []string{"TICKETING_ADDR=" + addr}, strings.Fields(c.args)...)))
	}
	for i, c := range cases {
		stdout, stderr := all[i].exits(c.code)
		if c.name == "granted" {
			if stdout != "18446744073709551615\n" {
				t.Errorf("%s: stdout %q, want the token alone", c.name, stdout)
			}
		} else if stdout != "" {
			t.Errorf("%s: stdout %q", c.name, stdout)
		}
		if c.says == "" && stderr != "" || c.says != "" && strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: stderr %q, want one line with %q", c.name, stderr, c.says)
		}
	}
}

// A release that is not answered is told and does not change what the command
// exited with; a second SIGINT ends the waiting for the answer.
func TestLockWhoseReleaseIsNotAnswered(t *testing.T) {
	p := newPeer(t, nil, scripted.Silent())
	p.Script(scripted.Grant(7))
	r := launch(t, clientCommand(nil, []string{"TICKETING_ADDR=" + p.addr}, "lock", "k", "--", "probe", "stays"))
	r.says(0, "ready\n")
	r.signal(syscall.SIGINT)
	p.awaits(t, 2)
	r.signal(syscall.SIGINT)
	if _, stderr := r.exits(exitSignal + int(syscall.SIGINT)); !strings.HasPrefix(stderr, `ticketing: release "k": indeterminate: `) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("stderr %q", stderr)
	}
}

// A token that nobody can be told is given back.
func TestAcquireWithoutReadersOfStdout(t *testing.T) {
	s := start(t, command(t, nil))
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := clientCommand(s, nil, "acquire", "k")
	cmd.Stdout = writer
	reader.Close()
	r := launch(t, cmd)
	writer.Close()
	if _, stderr := r.exits(exitEnvironment); !strings.Contains(stderr, "the token cannot be printed, so the key is given back") {
		t.Errorf("stderr %q", stderr)
	}
	if s.holds("k") {
		t.Error("the key was not given back")
	}
}
