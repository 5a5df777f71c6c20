package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary run as the ticketing command, under that name
// in PATH: scripts and tests start real processes. As probe it is a command for
// ticketing lock to run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ticketing": main, "probe": probe})
}

func TestScripts(t *testing.T) {
	s := start(t, command(t, nil)) // of the client commands
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", noRaceSleep)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": scriptFails, "exits": scriptExits, "server": scriptServer(s),
		},
	})
}

// scriptServer has the client commands of a script talk to s.
func scriptServer(s *server) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		ts.Setenv("TICKETING_ADDR", s.client)
		ts.Setenv("ADMIN_ADDR", s.admin)
	}
}

// scriptExits runs a command that must exit with a given code: exits CODE
// COMMAND ARG...
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := exitDone
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("ended with %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// scriptFails runs a command that must print nothing but one line of error and
// exit with a given code: fails CODE PATTERN COMMAND ARG...
func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE PATTERN COMMAND ARG...")
	}
	scriptExits(ts, false, append([]string{args[0]}, args[2:]...))
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	line, rest, _ := strings.Cut(stderr, "\n")
	if stdout != "" || rest != "" || !strings.HasPrefix(line, "ticketing: ") {
		ts.Fatalf("want one line of error on stderr, got stdout %q, stderr %q", stdout, stderr)
	}
	if !regexp.MustCompile(args[1]).MatchString(line) {
		ts.Fatalf("%q does not match %q", line, args[1])
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"as it is: ü 鍵":  "as it is: ü 鍵",
		"two\nlines\r\n": `two\nlines\r\n`,
		"\x1b[31m\u202e": `\x1b[31m\u202e`,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLookupTellsEmptyFromUnset(t *testing.T) {
	environ := []string{"A=", "B=x=y", "AB=z"}
	for name, want := range map[string]struct {
		value string
		ok    bool
	}{"A": {"", true}, "B": {"x=y", true}, "C": {"", false}} {
		if value, ok := lookup(environ, name); value != want.value || ok != want.ok {
			t.Errorf("%s: %q %v", name, value, ok)
		}
	}
}

// writeFile writes a file of a test that only its owner may read.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
