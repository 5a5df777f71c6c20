package rules

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// places are directories at the top of somebody's machine. The project speaks of
// itself alone, and works wherever it lies.
var places = []string{"work", "workspace", "home", "root", "Users"}

// foreign returns the offset of the first path to one of places, or -1.
func foreign(text []byte) int {
	for _, place := range places {
		word := []byte("/" + place + "/")
		for from := 0; ; {
			i := bytes.Index(text[from:], word)
			if i < 0 {
				break
			}
			from += i + 1
			if at := from - 1; at == 0 || !withinPath(text[at-1]) {
				return at
			}
		}
	}
	return -1
}

// withinPath reports whether a slash behind c does not begin a path.
func withinPath(c byte) bool {
	return strings.IndexByte("_./-", c) >= 0 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func TestNoForeignPlaces(t *testing.T) {
	for _, bad := range []string{"net/wor" + "k/, /wor" + "k/notes.md", "/wor" + "k/notes.md", "/hom" + "e/me/x", "(/roo" + "t/x)", "`/User" + "s/me/go`"} {
		if foreign([]byte(bad)) < 0 {
			t.Errorf("the rule does not object to %q", bad)
		}
	}
	for _, good := range []string{"https://example.org/wor" + "k/x", "net/wor" + "k/", "/workers/", "a/home", "./work/x"} {
		if foreign([]byte(good)) >= 0 {
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
		if at := foreign(data); at >= 0 {
			line := 1 + bytes.Count(data[:at], []byte("\n"))
			t.Errorf("%s:%d: a path on somebody's machine: %.40q", name, line, data[at:])
		}
	}
}
