package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ticketing/internal/transcript"
)

// server is one running process of the server.
type server struct {
	t      testing.TB // the test that started it
	cmd    *exec.Cmd
	addr   string // client address
	admin  string // admin address, empty when it is off
	stderr *transcript.Buffer
	exited chan struct{} // closed when the process has ended
	paced  []*peer       // see pace
	loops  int

	starved *starvation  // nil unless it is watched
	latest  atomic.Int64 // greatest lateness of an answer, in ns
}

// onLoops runs f against a fresh server with one loop and one with four.
func onLoops(t *testing.T, f func(t *testing.T, s *server), env ...string) {
	t.Helper()
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprintf("loops=%d", loops), func(t *testing.T) {
			f(t, startLoops(t, loops, env...))
		})
	}
}

// onLoopsParallel is onLoops for tests that mostly sleep.
func onLoopsParallel(t *testing.T, f func(t *testing.T, s *server), env ...string) {
	t.Helper()
	t.Parallel()
	onLoopsAlone(t, f, env...)
}

// onLoopsAlone runs both servers at once, and no other test beside them.
func onLoopsAlone(t *testing.T, f func(t *testing.T, s *server), env ...string) {
	t.Helper()
	for _, loops := range []int{1, 4} {
		t.Run(fmt.Sprintf("loops=%d", loops), func(t *testing.T) {
			t.Parallel()
			f(t, startLoops(t, loops, env...))
		})
	}
}

func startLoops(t testing.TB, loops int, env ...string) *server {
	t.Helper()
	s := start(t, append([]string{fmt.Sprintf("LOOPS=%d", loops)}, env...)...)
	s.loops = loops
	return s
}

// command is `ticketing serve` with these settings and none of ours, on free
// ports unless told otherwise.
func command(env ...string) *exec.Cmd {
	trackSources()
	return prepared(exec.Command(serverPath, "serve"), env...)
}

// prepared gives a command our settings. Its process ends with ours, also when
// a test runs into the time limit and nothing is cleaned up.
func prepared(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"GORACE=atexit_sleep_ms=0", // a racy build waits for a second otherwise
		"LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0",
	}, env...)
	return cmd
}

// start runs a server and waits for its addresses. The process is killed when
// the test is over, and what it logged is shown if the test failed.
func start(t testing.TB, env ...string) *server {
	t.Helper()
	return startCommand(t, command(env...))
}

func startCommand(t testing.TB, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, stderr: &transcript.Buffer{}, exited: make(chan struct{}), loops: 1}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, s.stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		s.kill()
		out.Close()
		s.checkLog(t)
	})
	lines := bufio.NewScanner(out)
	out.SetReadDeadline(time.Now().Add(3 * patience)) // hundreds of loops take their time
	wantAdmin := !strings.HasSuffix(lastSetting(cmd.Env, "ADMIN_ADDR="), "=")
	for (s.addr == "" || wantAdmin && s.admin == "") && lines.Scan() {
		name, addr, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "client":
			s.addr = addr
		case "admin":
			s.admin = addr
		}
	}
	if s.addr == "" || wantAdmin && s.admin == "" {
		s.kill()
		t.Fatalf("the server did not print its addresses; it exited with %d and said:\n%s", s.cmd.ProcessState.ExitCode(), s.stderr)
	}
	out.SetReadDeadline(time.Time{})
	go io.Copy(io.Discard, out)
	return s
}

func lastSetting(env []string, prefix string) (last string) {
	for _, e := range env {
		if strings.HasPrefix(e, prefix) {
			last = e
		}
	}
	return last
}

// checkLog fails the test for what no server may ever log.
func (s *server) checkLog(t testing.TB) {
	log := s.stderr.String()
	for _, bad := range []string{"panic", "DATA RACE", "fatal error", "goroutine "} {
		if strings.Contains(log, bad) {
			t.Errorf("the server logged %q", bad)
		}
	}
	if t.Failed() && log != "" {
		if len(log) > 8000 {
			log = log[:4000] + "\n[...]\n" + log[len(log)-4000:]
		}
		t.Logf("stderr of the server:\n%s", log)
	}
}

func (s *server) pid() int { return s.cmd.Process.Pid }

func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

func (s *server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}

// stopFor stops the process as the kernel may at any time, and lets it go on.
func (s *server) stopFor(t testing.TB, d time.Duration) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	time.Sleep(d)
	s.signal(t, syscall.SIGCONT)
}

// alive says that the process still runs.
func (s *server) alive() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// exit waits for the process to end by itself and returns its exit code.
func (s *server) exit(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-s.exited:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("the server still runs after %v", within)
		return 0
	}
}

// pace waits until every loop has seen what was sent before: one round trip on
// a connection of each loop. (Connections are spread evenly over the loops, and
// a loop takes its input in order of arrival; were it otherwise, the pieces of
// a split frame would arrive together and the test would only be weaker.)
func (s *server) pace(t testing.TB) {
	t.Helper()
	if s.paced == nil {
		s.paced = s.dials(s.t, s.loops)
	}
	for _, p := range s.paced {
		if err := p.write(release(0, "pace")); err != nil {
			t.Fatalf("pace: %v", err)
		}
	}
	for _, p := range s.paced {
		if _, err := p.want('N', 0, "pace"); err != nil {
			t.Fatalf("pace: %v", err)
		}
	}
}

// feed sends each peer its pieces, one piece a round, and lets every loop read
// between the rounds.
func (s *server) feed(t testing.TB, peers []*peer, pieces [][][]byte) {
	t.Helper()
	for round := 0; ; round++ {
		more := false
		for i, ps := range pieces {
			if round < len(ps) {
				peers[i].send(ps[round])
				more = more || round+1 < len(ps)
			}
		}
		if !more {
			return
		}
		s.pace(t)
	}
}

// await polls until ok.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// together runs f n times at once and reports every error.
func together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	failed := 0
	for range n {
		if err := <-errs; err != nil {
			if failed++; failed <= 5 {
				t.Error(err)
			}
		}
	}
	if failed > 0 {
		t.Fatalf("%d of %d failed", failed, n)
	}
}
