package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is a client command of a test.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *logTail
	ended    chan struct{} // closed when nobody has its stdout or stderr open any more
}

// clientCommand prepares a client command of the server s, if any, with no
// variable but extra ones.
func clientCommand(s *server, environ []string, args ...string) *exec.Cmd {
	cmd := exec.Command("ticketing", args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=" + noRaceSleep}, environ...)
	if s != nil {
		cmd.Env = append(cmd.Env, "TICKETING_ADDR="+s.client, "ADMIN_ADDR="+s.admin)
	}
	return cmd
}

// launch starts a command. Its stdout and stderr are gathered unless it has
// some.
func launch(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, ended: make(chan struct{})}
	r.out, r.err = &logTail{grown: make(chan struct{})}, &logTail{grown: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = r.out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = r.err
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-r.ended
		if t.Failed() {
			out, _ := r.out.look()
			stderr, _ := r.err.look()
			t.Logf("%v\nstdout %q\nstderr %q", slices.Concat(cmd.Args), out, stderr)
		}
	})
	return r
}

// says waits for text on stdout behind an offset, and returns the offset behind
// it.
func (r *running) says(from int, text string) int {
	r.t.Helper()
	return r.out.await(r.t, from, text)
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// exits waits until the process has ended, and every other one that has its
// stdout or stderr, and checks exit code, stdout and stderr.
func (r *running) exits(code int) (stdout, stderr string) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatal("does not end")
	}
	stdout, _ = r.out.look()
	stderr, _ = r.err.look()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Fatalf("exit code %d (%v), want %d", got, r.cmd.ProcessState, code)
	}
	return stdout, stderr
}

// holds reports whether somebody holds the key.
func (s *server) holds(key string) bool {
	s.t.Helper()
	cmd := clientCommand(s, nil, "acquire", key, "--wait=0s")
	token, err := cmd.Output()
	if err != nil {
		if cmd.ProcessState.ExitCode() != exitTimeout {
			s.t.Fatalf("%v: %v", cmd.Args, err)
		}
		return true
	}
	if err := clientCommand(s, nil, "release", key, string(token[:len(token)-1])).Run(); err != nil {
		s.t.Fatal(err)
	}
	return false
}

// awaitMetric waits until /metrics has a line: a loop that is busy is shown as
// it was.
func (s *server) awaitMetric(line string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		_, body := s.get("/metrics")
		if strings.Contains(body, "\n"+line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("/metrics never has %q", line)
		}
	}
}
