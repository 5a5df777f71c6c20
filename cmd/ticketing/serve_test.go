package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ticketing/auth"
)

func TestServeAndDrain(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, command(t, nil))
		if code, _ := s.get("/readyz"); code != 200 {
			t.Errorf("/readyz: %d when it says that it listens", code)
		}
		if _, body := s.get("/metrics"); !strings.Contains(body, "\nticketing_ready 1\n") {
			t.Error("/metrics does not say that it is ready")
		}
		c := s.dial()
		// The server has seen the connection when it counts it.
		for {
			if _, body := s.get("/metrics"); strings.Contains(body, "\nticketing_connections 1\n") {
				break
			}
		}
		s.signal(sig)
		if got := c.line(); got != "Eshutting_down" {
			t.Errorf("%v: the client got %q", sig, got)
		}
		c.Close()
		s.exits(exitDone)
	}
}

func TestServeWithoutAdmin(t *testing.T) {
	s := start(t, command(t, nil, "--admin-addr="))
	s.dial().refused()
	s.signal(syscall.SIGTERM)
	s.exits(exitDone)
}

// Two signals that come at once must both be seen: the process is stopped while
// they are sent, and a client that never closes holds up the drain.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := start(t, command(t, nil, "--drain-timeout=5m"))
	c := s.dial()
	for {
		if _, body := s.get("/metrics"); strings.Contains(body, "\nticketing_connections 1\n") {
			break
		}
	}
	s.signal(syscall.SIGSTOP)
	s.signal(syscall.SIGTERM)
	s.signal(syscall.SIGINT)
	s.signal(syscall.SIGCONT)
	s.exits(exitEnvironment)
	s.logs(0, "ticketing: second signal")
	c.Close()
}

func TestJSONLog(t *testing.T) {
	s := start(t, command(t, []string{"LOG_FORMAT=json"}))
	s.logs(0, `"msg":"listening","what":"client","addr":"`+s.client+`"`)
	s.logs(0, `"msg":"listening","what":"admin","addr":"`+s.admin+`"`)
}

func TestLogLevel(t *testing.T) {
	s := start(t, command(t, nil, "--log-level=error"))
	s.signal(syscall.SIGTERM)
	s.exits(exitDone)
	if text, _ := s.log.look(); text != "" {
		t.Errorf("logged %q", text)
	}
}

// A second server must fail, not share the port and split the locks.
func TestPortInUse(t *testing.T) {
	s := start(t, command(t, nil))
	text := failsToStart(t, command(t, nil, "--listen-addr="+s.client), exitEnvironment)
	if want := fmt.Sprintf("LISTEN_ADDR (--listen-addr) is %q: address already in use", s.client); !strings.Contains(text, want) {
		t.Errorf("%q does not say %q", text, want)
	}
	text = failsToStart(t, command(t, nil, "--admin-addr="+s.admin), exitEnvironment)
	if want := fmt.Sprintf("ADMIN_ADDR (--admin-addr) is %q: address already in use", s.admin); !strings.Contains(text, want) {
		t.Errorf("%q does not say %q", text, want)
	}
	s.dial().refused()
}

// A server that was killed with clients connected leaves nothing that keeps the
// next one from its ports.
func TestRestartAfterKill(t *testing.T) {
	s := start(t, command(t, nil))
	for range 5 {
		c := s.dial()
		c.refused()
	}
	open := s.dial()
	s.signal(syscall.SIGKILL)
	s.exits(-1)
	again := start(t, command(t, nil, "--listen-addr="+s.client, "--admin-addr="+s.admin))
	again.dial().refused()
	open.Close()
}

func TestInsecureIsSaidAloud(t *testing.T) {
	s := start(t, command(t, []string{"ALLOW_INSECURE=true"}, "--listen-addr=0.0.0.0:0"))
	s.logs(0, "level=WARN msg=\"ALLOW_INSECURE")
	quiet := start(t, command(t, []string{"ALLOW_INSECURE=true"}))
	quiet.signal(syscall.SIGTERM)
	quiet.exits(exitDone)
	if text, _ := quiet.log.look(); strings.Contains(text, "ALLOW_INSECURE") {
		t.Errorf("a warning on loopback: %s", text)
	}
	withSecret := start(t, command(t, []string{"AUTH_SECRET=s3cret"}, "--listen-addr=0.0.0.0:0"))
	withSecret.signal(syscall.SIGTERM)
	withSecret.exits(exitDone)
	if text, _ := withSecret.log.look(); strings.Contains(text, "ALLOW_INSECURE") || strings.Contains(text, "s3cret") {
		t.Errorf("with a secret: %s", text)
	}
}

// Whoever reads the log may go away without ending the server.
func TestBrokenLogPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, nil)
	cmd.Stderr = writer
	s := start(t, cmd)
	writer.Close()
	reader.Close()
	s.signal(syscall.SIGHUP) // which is logged
	s.dial().refused()
	s.signal(syscall.SIGTERM)
	s.exits(exitDone)
}

// authenticate answers the challenge with secret and reports whether it was
// accepted, by what a frame that is always refused gets.
func (c *conn) authenticate(secret string) bool {
	c.t.Helper()
	nonce, ok := auth.ParseChallenge([]byte(c.line()))
	if !ok {
		c.t.Fatal("no challenge")
	}
	c.Write(append(auth.AppendResponse(nil, []byte(secret), nonce), "?\n"...))
	switch got := c.line(); got {
	case "Ebad_op":
		return true
	case "Eauth_failed":
		return false
	default:
		c.t.Fatalf("got %q", got)
		return false
	}
}

func TestReload(t *testing.T) {
	path := t.TempDir() + "/secrets"
	writeFile(t, path, "old\n")
	s := start(t, command(t, nil, "--auth-secret-file="+path))
	expect := func(when, secret string, want bool) {
		t.Helper()
		if got := s.dial().authenticate(secret); got != want {
			t.Errorf("%s: %s accepted: %v", when, secret, got)
		}
	}
	// A connection that is open lives on, whatever becomes of its secret.
	living := s.dial()
	nonce, _ := auth.ParseChallenge([]byte(living.line()))
	living.Write(append(auth.AppendResponse(nil, []byte("old"), nonce), '\n'))
	expect("before", "old", true)
	expect("before", "new", false)

	writeFile(t, path, "old\n\nnew\n")
	s.signal(syscall.SIGHUP)
	at := s.logs(0, `msg="reload: secrets were read again" secrets=2`)
	expect("rotation", "old", true)
	expect("rotation", "new", true)

	for _, bad := range []string{"", "\n\n", "new\r\n", strings.Repeat("x", maxSecretFile+1)} {
		writeFile(t, path, bad)
		s.signal(syscall.SIGHUP)
		at = s.logs(at, `level=ERROR msg="reload failed: the former secrets stay"`)
		expect("after a bad file", "new", true)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	at = s.logs(at, `level=ERROR msg="reload failed: the former secrets stay"`)
	expect("after a lost file", "new", true)

	writeFile(t, path, strings.Repeat("x", maxSecretFile))
	s.signal(syscall.SIGHUP)
	at = s.logs(at, `msg="reload: secrets were read again" secrets=1`)
	writeFile(t, path, "new")
	s.signal(syscall.SIGHUP)
	s.logs(at, `msg="reload: secrets were read again" secrets=1`)
	expect("after the rotation", "old", false)
	expect("after the rotation", "new", true)
	living.refused()
}

func TestReloadWithoutAFile(t *testing.T) {
	s := start(t, command(t, []string{"AUTH_SECRET=old"}))
	s.signal(syscall.SIGHUP)
	s.logs(0, "no AUTH_SECRET_FILE")
	if !s.dial().authenticate("old") {
		t.Error("the secret is gone")
	}
}

// A pipe is refused at once: a start or a reload never waits for a writer.
func TestSecretFileIsAFile(t *testing.T) {
	path := t.TempDir() + "/pipe"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	text := failsToStart(t, command(t, nil, "--auth-secret-file="+path), exitSetting)
	if !strings.Contains(text, "not a regular file") {
		t.Error(text)
	}
}

// limited runs ticketing serve where no more than files may be open, half of
// them at first.
func limited(t *testing.T, files uint64, args ...string) *exec.Cmd {
	cmd := command(t, nil, args...)
	script := fmt.Sprintf(`ulimit -Sn %d && ulimit -Hn %d && exec ticketing "$@"`, files/2, files)
	cmd.Path = "/bin/sh"
	cmd.Args = append([]string{"sh", "-c", script, "sh"}, cmd.Args[1:]...)
	return cmd
}

func TestFileLimit(t *testing.T) {
	need := filesNeeded(100, 1, 0)
	args := []string{"--max-connections=100", "--loops=1"}
	text := failsToStart(t, limited(t, need-1, args...), exitEnvironment)
	want := fmt.Sprintf(`MAX_CONNECTIONS (--max-connections) is "100": needs %d open files and RLIMIT_NOFILE allows %d`, need, need-1)
	if !strings.Contains(text, want) {
		t.Errorf("%q does not say %q", text, want)
	}
	s := start(t, limited(t, need, args...))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Max open files            %-20d %-20d", need, need); !strings.Contains(string(limits), want) {
		t.Errorf("the limit was not raised to %d:\n%s", need, limits)
	}
}

// With exactly the files that were asked for, every connection that may come
// is served.
func TestFileLimitHoldsEveryConnection(t *testing.T) {
	const connections = 100
	s := start(t, limited(t, filesNeeded(connections, 2, 0), fmt.Sprintf("--max-connections=%d", connections), "--loops=2"))
	var all []*conn
	for range connections {
		all = append(all, s.dial())
	}
	if _, err := s.dial().in.ReadByte(); err != io.EOF {
		t.Errorf("connection %d: %v, want a close", connections+1, err)
	}
	for _, c := range all {
		c.refused()
	}
	if code, _ := s.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
}
