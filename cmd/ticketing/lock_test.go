package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lockUp runs ticketing lock k with a command and waits until that is ready.
func lockUp(t *testing.T, s *server, flags []string, command ...string) *running {
	t.Helper()
	args := append([]string{"lock", "k"}, flags...)
	r := launch(t, clientCommand(s, nil, append(append(args, "--"), command...)...))
	r.says(0, "ready\n")
	return r
}

// Stdin, stdout and every other open file are the command's own.
func TestLockLeavesFilesAlone(t *testing.T) {
	s := start(t, command(t, nil))
	data := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{7})
	source.Read(data)
	path := t.TempDir() + "/data"
	writeFile(t, path, string(data))

	cmd := clientCommand(s, nil, "lock", "k", "--", "cat")
	cmd.Stdin = bytes.NewReader(data) // a pipe
	if out, err := cmd.Output(); err != nil || !bytes.Equal(out, data) {
		t.Errorf("through a pipe: %d bytes of %d, %v", len(out), len(data), err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd = clientCommand(s, nil, "lock", "k", "--", "cat")
	cmd.Stdin = file
	if out, err := cmd.Output(); err != nil || !bytes.Equal(out, data) {
		t.Errorf("from a file: %d bytes of %d, %v", len(out), len(data), err)
	}
	// What the command does not read stays in the file for who reads on.
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	cmd = clientCommand(s, nil, "lock", "k", "--", "true")
	cmd.Stdin = file
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if at, _ := file.Seek(0, 1); at != 0 {
		t.Errorf("%d bytes of stdin were taken from the command", at)
	}
	// Every other file it has is one that this process would have given it.
	other, err := os.Create(t.TempDir() + "/other")
	if err != nil {
		t.Fatal(err)
	}
	files := func(args ...string) string {
		cmd := clientCommand(s, nil, args[1:]...)
		cmd.Path, cmd.Args = args[0], args
		if cmd.Path, err = exec.LookPath(args[0]); err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{other}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	list := []string{"sh", "-c", "ls /proc/self/fd; ulimit -n; echo three >&3"}
	if direct, locked := files(list...), files(append([]string{"ticketing", "lock", "k", "--"}, list...)...); direct != locked {
		t.Errorf("files %q, without ticketing lock %q", locked, direct)
	}
	if text, _ := os.ReadFile(other.Name()); string(text) != "three\nthree\n" {
		t.Errorf("file 3 got %q", text)
	}
}

func TestLockPassesSignalsOn(t *testing.T) {
	s := start(t, command(t, nil))
	sent := []syscall.Signal{
		syscall.SIGINT, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP,
	}
	r := lockUp(t, s, nil, "probe", "signals", "11", "7")
	at := 0
	for _, sig := range sent {
		r.signal(sig)
		at = r.says(at, unix.SignalName(sig)+"\n")
	}
	if _, stderr := r.exits(7); stderr != "" {
		t.Errorf("stderr %q", stderr)
	}
	if s.holds("k") {
		t.Error("the key was not released")
	}
}

// A command that a signal ends ends ticketing lock with 128+N, as in a shell.
func TestLockExitsAsASignalledCommand(t *testing.T) {
	s := start(t, command(t, nil))
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGALRM} {
		r := lockUp(t, s, nil, "sh", "-c", "echo ready; exec sleep 60")
		r.signal(sig)
		r.exits(exitSignal + int(sig))
		if s.holds("k") {
			t.Errorf("%v: the key was not released", sig)
		}
	}
}

func TestLockSignalsTheWholeGroup(t *testing.T) {
	s := start(t, command(t, nil))
	r := lockUp(t, s, nil, "probe", "forks", "signals", "2", "0")
	r.signal(syscall.SIGCONT) // which leaves the leader be
	at := r.says(0, "SIGCONT\n")
	r.signal(syscall.SIGINT) // which ends it
	r.says(at, "SIGINT\n")
	r.exits(exitSignal + int(syscall.SIGINT))
}

// Processes that the command leaves behind are left alone, and not waited for.
func TestLockLeavesOthersAlone(t *testing.T) {
	s := start(t, command(t, nil))
	out := t.TempDir() + "/out"
	r := launch(t, clientCommand(s, nil, "lock", "k", "--", "sh", "-c", `probe signals 1 0 >"$0" 2>&1 & echo $!`, out))
	stdout, _ := r.exits(0)
	var pid int
	if _, err := fmt.Sscan(stdout, &pid); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, out, "ready\n")
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, out, "ready\nSIGUSR1\n")
}

// awaitFile waits until a file has this text.
func awaitFile(t *testing.T, path, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(path)
		if string(text) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has %q, want %q", path, text, want)
		}
	}
}

// A signal ends the waiting: nothing is run, and the server has no waiter more.
func TestASignalEndsTheWaiting(t *testing.T) {
	s := start(t, command(t, nil))
	if err := clientCommand(s, nil, "acquire", "k", "--lease=250s").Run(); err != nil {
		t.Fatal(err)
	}
	acquire, lock := []string{"acquire", "k", "--wait=255s"}, []string{"lock", "k", "--wait=255s", "--", "echo", "was run"}
	for _, c := range []struct {
		args []string
		sig  syscall.Signal
	}{{acquire, syscall.SIGINT}, {lock, syscall.SIGINT}, {acquire, syscall.SIGQUIT}, {lock, syscall.SIGTERM}, {lock, syscall.SIGUSR2}} {
		r := launch(t, clientCommand(s, nil, c.args...))
		s.awaitMetric("ticketing_waiters 1")
		r.signal(c.sig)
		stdout, stderr := r.exits(exitSignal + int(c.sig))
		if want := "ticketing: " + unix.SignalName(c.sig) + " while waiting for \"k\"\n"; stdout != "" || stderr != want {
			t.Errorf("%v: stdout %q, stderr %q, want %q", c.args, stdout, stderr, want)
		}
		s.awaitMetric("ticketing_waiters 0")
	}
}

// What somebody has ignored before stays ignored, for the command too.
func TestLockKeepsIgnoredSignals(t *testing.T) {
	s := start(t, command(t, nil))
	cmd := clientCommand(s, nil)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec ticketing lock k -- sh -c 'probe ignored; exec probe signals 1 0'`}
	r := launch(t, cmd)
	r.says(0, "ready\n")
	r.signal(syscall.SIGHUP)
	r.signal(syscall.SIGUSR1)
	if stdout, _ := r.exits(0); stdout != "SIGHUP\nready\nSIGUSR1\n" {
		t.Errorf("stdout %q", stdout)
	}
}

// A message that nobody reads does not end ticketing lock before its command.
func TestLockWithoutReadersOfStderr(t *testing.T) {
	s := start(t, command(t, nil))
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := clientCommand(s, nil, "lock", "k", "--", "sh", "-c", `ticketing release k "$TICKETING_TOKEN"; exit 6`)
	cmd.Stderr = writer
	r := launch(t, cmd)
	writer.Close()
	reader.Close()
	r.exits(6)
}

// The command is told of its own lock, also within another one.
func TestLockWithinALock(t *testing.T) {
	s := start(t, command(t, nil))
	out, err := clientCommand(s, []string{"KEPT=as it is"}, "lock", "outer", "--",
		"ticketing", "lock", "inner", "--", "env").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := "\n" + string(out)
	if strings.Count(text, "\nTICKETING_KEY=") != 1 || strings.Count(text, "\nTICKETING_TOKEN=") != 1 ||
		!strings.Contains(text, "\nTICKETING_KEY=inner\n") || !strings.Contains(text, "\nTICKETING_TOKEN=2\n") ||
		!strings.Contains(text, "\nKEPT=as it is\n") {
		t.Errorf("environment:\n%s", out)
	}
}

// A program that the kernel does not run is found out when the key is held.
func TestLockOfWhatIsNoProgram(t *testing.T) {
	s := start(t, command(t, nil))
	path := t.TempDir() + "/script"
	writeFile(t, path, "exit 0\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	out, err := clientCommand(s, nil, "lock", "k", "--", path).Output()
	if !errors.As(err, &exit) || exit.ExitCode() != exitSetting || len(out) > 0 || strings.Count(string(exit.Stderr), "\n") != 1 {
		t.Fatalf("%v: %q", err, out)
	}
	if !strings.Contains(string(exit.Stderr), "cannot be run: exec format error") {
		t.Errorf("stderr %q", exit.Stderr)
	}
	if s.holds("k") {
		t.Error("the key was not released")
	}
}
