package rules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign matches a path on somebody's machine: the project speaks of itself
// alone, and works wherever it lies.
var foreign = regexp.MustCompile(`(^|[^\w./-])/(work|workspace|home|root|Users)/`)

func TestNoForeignPlaces(t *testing.T) {
	for _, bad := range []string{"see /wor" + "k/notes.md", "/hom" + "e/me/x", "(/roo" + "t/x)", "`/User" + "s/me/go`"} {
		if !foreign.MatchString(bad) {
			t.Errorf("the rule does not object to %q", bad)
		}
	}
	for _, good := range []string{"https://example.org/wor" + "k/x", "net/wor" + "k/", "/workers/", "a/home", "./work/x"} {
		if foreign.MatchString(good) {
			t.Errorf("the rule objects to %q", good)
		}
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("which files belong to the project only git can tell: %v", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(names) < 10 {
		t.Fatalf("git tells of %d files", len(names))
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".ci/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // about to be removed
		}
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range bytes.Split(data, []byte("\n")) {
			if foreign.Match(line) {
				t.Errorf("%s:%d: a path that is nobody else's: %s", name, n+1, line)
			}
		}
	}
}
