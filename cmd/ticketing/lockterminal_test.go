package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs a shell script in a session of its own with a terminal, and
// returns what is typed into. Its output is the process's stdout.
func onTerminal(t *testing.T, s *server, script string, args ...string) (*running, *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetUint32(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := clientCommand(s, nil)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script}, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r := launch(t, cmd)
	go func() { // what the terminal shows, until nobody has it open any more
		buffer := make([]byte, 4096)
		for {
			n, err := keyboard.Read(buffer)
			r.out.Write([]byte(strings.ReplaceAll(string(buffer[:n]), "\r\n", "\n")))
			if err != nil {
				return
			}
		}
	}()
	return r, keyboard
}

func typed(t *testing.T, keyboard *os.File, keys string) {
	t.Helper()
	if _, err := keyboard.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

const (
	ctrlC, ctrlZ, ctrlBackslash = "\x03", "\x1a", "\x1c"
)

// The command may read from the terminal and gets its signals, and afterwards
// the terminal is the shell's again.
func TestLockOnATerminal(t *testing.T) {
	s := start(t, command(t, nil))
	program := t.TempDir() + "/no-program"
	writeFile(t, program, "exit 0\n")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	r, keyboard := onTerminal(t, s, `
		ticketing lock k -- probe reads; echo "code $?"
		ticketing lock k -- probe signals 2 5; echo "code $?"
		ticketing lock k -- probe stays; echo "code $?"
		read line; echo "read $line"
		ticketing lock k -- "$0"; echo "code $?"
		read line; echo "read $line"`, program)
	at := r.says(0, "ready\n")
	typed(t, keyboard, "hello\n")
	at = r.says(at, "got hello\n")
	typed(t, keyboard, "\x04")
	at = r.says(at, "code 0\n")
	at = r.says(at, "ready\n")
	typed(t, keyboard, ctrlC)
	at = r.says(at, "SIGINT\n")
	typed(t, keyboard, ctrlBackslash)
	at = r.says(at, "SIGQUIT\n")
	at = r.says(at, "code 5\n")
	at = r.says(at, "ready\n")
	typed(t, keyboard, ctrlC)
	at = r.says(at, "code 130\n")
	typed(t, keyboard, "well\n")
	at = r.says(at, "read well\n")
	at = r.says(at, "exec format error\ncode 2\n")
	typed(t, keyboard, "still\n")
	r.says(at, "read still\n")
	r.exits(0)
	if s.holds("k") {
		t.Error("the key was not released")
	}
}

// With a neighbour in a pipeline the terminal stays with both: it is the
// neighbour that reads, and the signals reach the command all the same.
func TestLockInAPipeline(t *testing.T) {
	s := start(t, command(t, nil))
	r, keyboard := onTerminal(t, s, `
		set -m
		ticketing lock k -- probe signals 1 0 | (trap "" INT; read line; echo "$line, $(head -n 1 </dev/tty)"; cat)
		echo "code $?"`)
	typed(t, keyboard, "neighbour reads\n")
	at := r.says(0, "ready, neighbour reads\n")
	typed(t, keyboard, ctrlC)
	at = r.says(at, "SIGINT\n")
	r.says(at, "code 0\n")
	r.exits(0)
}

// A command that was started in the background gets the terminal when it reads
// from it and its job has the foreground.
func TestLockReadsInAPipeline(t *testing.T) {
	s := start(t, command(t, nil))
	r, keyboard := onTerminal(t, s, `
		set -m
		ticketing lock k -- probe reads | cat
		echo "code $?"`)
	at := r.says(0, "ready\n")
	typed(t, keyboard, "hello\n")
	at = r.says(at, "got hello\n")
	typed(t, keyboard, "\x04")
	r.says(at, "code 0\n")
	r.exits(0)
}

// Ctrl-Z stops the job as the shell sees it, and fg brings the command back to
// the terminal; so it does for a job that was begun in the background.
func TestLockUnderJobControl(t *testing.T) {
	s := start(t, command(t, nil))
	r, keyboard := onTerminal(t, s, `
		set -m
		ticketing lock k -- probe reads; echo "code $?"
		read line; echo "read $line"
		fg; echo "code $?"
		ticketing lock k -- probe continues; fg
		ticketing lock k -- probe reads & wait; echo "stopped"
		fg; echo "code $?"`)
	at := r.says(0, "ready\n")
	typed(t, keyboard, ctrlZ)
	at = r.says(at, "code 147\n")
	typed(t, keyboard, "meanwhile\n")
	at = r.says(at, "read meanwhile\n")
	typed(t, keyboard, "back\n")
	at = r.says(at, "got back\n")
	typed(t, keyboard, "\x04")
	at = r.says(at, "code 0\n")
	at = r.says(at, "ready\n")
	typed(t, keyboard, ctrlZ)
	at = r.says(at, "foreground true\n")
	at = r.says(at, "ready\n")
	at = r.says(at, "stopped\n")
	typed(t, keyboard, "from behind\n")
	at = r.says(at, "got from behind\n")
	typed(t, keyboard, "\x04")
	r.says(at, "code 0\n")
	r.exits(0)
}

// Without a shell that could continue it, ctrl-Z stops nothing, as with any
// other program.
func TestLockWithoutJobControl(t *testing.T) {
	s := start(t, command(t, nil))
	r, keyboard := onTerminal(t, s, `exec ticketing lock k -- probe reads`)
	at := r.says(0, "ready\n")
	typed(t, keyboard, ctrlZ)
	typed(t, keyboard, "on\n")
	r.says(at, "got on\n")
	typed(t, keyboard, "\x04")
	r.exits(0)
}
