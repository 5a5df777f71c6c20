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
// in PATH: scripts and tests start real processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ticketing": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"fails": scriptFails},
	})
}

// scriptFails runs a command that must print nothing but one line of error and
// exit with a given code: fails CODE PATTERN COMMAND ARG...
func scriptFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE PATTERN COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[2], args[3:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("ended with %v, want exit status %d", err, want)
	}
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
