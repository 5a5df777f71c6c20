package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that is to happen; no test depends
// on how long anything takes.
const patience = 60 * time.Second

// noRaceSleep is the value of GORACE for the processes of tests: under the race
// detector they would sleep a second before they end.
const noRaceSleep = "atexit_sleep_ms=0"

// server is a ticketing serve process of a test.
type server struct {
	t             *testing.T
	cmd           *exec.Cmd
	client, admin string // addresses as printed on stdout; admin empty when off
	log           *logTail
	ended         chan struct{} // closed when the process has ended; code is set then
	code          int
}

// logTail gathers a process's stderr and lets tests wait for a line of it.
type logTail struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{} // closed and replaced at each write
}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	close(l.grown)
	l.grown = make(chan struct{})
	return len(p), nil
}

func (l *logTail) look() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.grown
}

// await waits until the text holds what is wanted, from an offset on, and
// returns the offset behind it.
func (l *logTail) await(t *testing.T, from int, want string) int {
	t.Helper()
	timeout := time.After(patience)
	for {
		all, grown := l.look()
		if i := strings.Index(all[from:], want); i >= 0 {
			return from + i + len(want)
		}
		select {
		case <-grown:
		case <-timeout:
			t.Fatalf("%q does not come; there is %q", want, all)
		}
	}
}

// command prepares ticketing serve on free ports of loopback, with args behind
// the defaults and no variable but extra ones.
func command(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	all := append([]string{"serve", "--listen-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"}, args...)
	cmd := exec.Command("ticketing", all...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=" + noRaceSleep}, environ...)
	return cmd
}

// start runs cmd until it says where it listens.
func start(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, log: &logTail{grown: make(chan struct{})}, ended: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = s.log
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			lines <- scan.Text()
		}
		close(lines)
		cmd.Wait()
		s.code = cmd.ProcessState.ExitCode()
		close(s.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			text, _ := s.log.look()
			t.Logf("log of %v:\n%s", cmd.Args, text)
		}
	})
	wantAdmin := true
	for _, arg := range cmd.Args {
		wantAdmin = wantAdmin && arg != "--admin-addr="
	}
	for s.client == "" || wantAdmin && s.admin == "" {
		select {
		case line, ok := <-lines:
			what, addr, _ := strings.Cut(line, " ")
			switch {
			case !ok:
				text, _ := s.log.look()
				t.Fatalf("ended before it listened: %s", text)
			case what == "client":
				s.client = addr
			case what == "admin":
				s.admin = addr
			default:
				t.Fatalf("on stdout: %q", line)
			}
		case <-time.After(patience):
			t.Fatal("does not listen")
		}
	}
	return s
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// exits waits for the end of the process and checks its exit code.
func (s *server) exits(code int) {
	s.t.Helper()
	select {
	case <-s.ended:
		if s.code != code {
			s.t.Fatalf("exit code %d, want %d", s.code, code)
		}
	case <-time.After(patience):
		s.t.Fatal("does not end")
	}
}

// logs waits until the log holds text behind what it held before, and returns
// how far it was read.
func (s *server) logs(from int, text string) int {
	s.t.Helper()
	return s.log.await(s.t, from, text)
}

// get asks the admin endpoint.
func (s *server) get(path string) (int, string) {
	s.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// dial connects a client, which stays until the test ends.
func (s *server) dial() *conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.client)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &conn{Conn: c, t: s.t, in: bufio.NewReader(c)}
}

// conn is a client's connection.
type conn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// line reads one line of text, an answer without binary fields.
func (c *conn) line() string {
	c.t.Helper()
	text, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatalf("read %q, then %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// refused sends a frame that no server takes and expects its error: the proof
// that the connection is open and served.
func (c *conn) refused() {
	c.t.Helper()
	fmt.Fprint(c, "?\n")
	if got := c.line(); got != "Ebad_op" {
		c.t.Fatalf("got %q, want Ebad_op", got)
	}
}

// failsToStart runs cmd, which must end with code and one line on stderr.
func failsToStart(t *testing.T, cmd *exec.Cmd, code int) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v: %v, want exit code %d; stderr %q", cmd.Args, err, code, stderr.String())
	}
	if stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
		t.Fatalf("stdout %q, stderr %q: want one line of error", stdout.String(), stderr.String())
	}
	return stderr.String()
}
