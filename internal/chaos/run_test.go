package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/internal/chaos/history"
)

// How long runs in tests break things: one round of most faults, and enough of
// one to find a mistake by.
const (
	briefly  = 25 * time.Second
	barely   = 10 * time.Second
	provedBy = "answers before the log" // a mistake that is found quickly
)

// runIn does a run in a directory of the test's own, with its output in the
// test's log. What a failed one left is kept.
func runIn(t *testing.T, cfg Config) (*Report, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ticketing-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history and logs are in %s", dir)
		} else {
			os.RemoveAll(dir)
		}
	})
	cfg.Dir = dir
	err = Enter(t.Context(), Job{Run: &cfg}, logOf{t})
	report, readErr := ReadReport(dir)
	if readErr != nil {
		t.Fatal(errors.Join(err, readErr))
	}
	return report, err
}

// logOf writes to a test's log.
type logOf struct{ t *testing.T }

func (l logOf) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}

// A cluster keeps its promises while it is broken in all ways. This is the short
// form of make chaos.
func TestCluster(t *testing.T) {
	needSpace(t)
	binary, err := server()
	if err != nil {
		t.Fatal(err, binary)
	}
	r, err := runIn(t, Config{Binary: binary, Duration: briefly, Seed: uint64(time.Now().UnixNano() % 1e6)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcomes["granted"] < 200 || r.Outcomes["released"] < 200 || r.Outcomes["not_held"] == 0 || r.Outcomes["timeout"] == 0 {
		t.Errorf("the load is not what it should be: %v", r.Outcomes)
	}
	if len(r.Faults) < 3 || r.Elections == 0 || r.Compared == 0 {
		t.Errorf("little was broken: faults %v, %d leaders, states compared at %d indexes", r.Faults, r.Elections, r.Compared)
	}
}

// A cluster with a mistake is found.
func TestMistakeIsFound(t *testing.T) {
	needSpace(t)
	i := slices.IndexFunc(mistakes, func(m mistake) bool { return strings.HasPrefix(m.Name, provedBy) })
	found, err := mistakes[i].find(t.Context(), Config{Dir: t.TempDir(), Duration: barely, Seed: 1}, logOf{t})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("not found")
	}
}

// Every mistake in the list can still be built in: the text it changes is there.
func TestMistakesFollowTheCode(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		for _, e := range m.Edits {
			if _, err := e.spoiled(filepath.Join(root, e.File)); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
			if e.Old == e.New {
				t.Errorf("%s changes nothing", m.Name)
			}
		}
		for _, name := range m.Only {
			if !slices.Contains(Faults(), name) {
				t.Errorf("%s: there is no fault %q", m.Name, name)
			}
		}
	}
	e := edit{"go.mod", "no such text", "y"}
	if _, err := e.spoiled(filepath.Join(root, e.File)); err == nil {
		t.Error("what is not there was replaced")
	}
}

// A seed draws the same faults again, and each before any is drawn twice.
func TestDeck(t *testing.T) {
	draw := func(seed uint64) (names []string) {
		n := newNemesis(newCluster("", "", image, false), nil, seed, 1, nil, nil)
		for range 2 * len(faults) {
			names = append(names, n.next().name)
		}
		return names
	}
	first := draw(7)
	if again := draw(7); !slices.Equal(first, again) {
		t.Errorf("the seed draws\n%v\nand then\n%v", first, again)
	}
	if other := draw(8); slices.Equal(first, other) {
		t.Error("another seed draws the same")
	}
	for _, half := range [][]string{first[:len(faults)], first[len(faults):]} {
		slices.Sort(half)
		if got := slices.Compact(half); len(got) != len(faults) {
			t.Errorf("drawn once each: %v", got)
		}
	}
	if n := newNemesis(newCluster("", "", memory, false), nil, 1, 1, nil, nil); len(n.deck) == len(faults) {
		t.Error("a disk in memory can fail")
	}
	if n := newNemesis(newCluster("", "", image, true), nil, 1, 1, nil, nil); len(n.deck) == 0 || len(n.deck) == len(faults) {
		t.Errorf("with one server there are %d faults", len(n.deck))
	}
	if n := newNemesis(newCluster("", "", image, false), nil, 1, 1, []string{"kill"}, nil); len(n.deck) != 1 {
		t.Errorf("of one fault there are %d", len(n.deck))
	}
}

func TestOutcomesOfErrors(t *testing.T) {
	callErr := func(class client.Class, err error) error { return &client.CallError{Class: class, Err: err} }
	for _, c := range []struct {
		err  error
		want history.Outcome
	}{
		{callErr(client.ClassNotGranted, client.ErrTimeout), history.TimedOut},
		{callErr(client.ClassNotGranted, client.ErrBusy), history.Busy},
		{callErr(client.ClassNotExecuted, client.ErrTimeout), history.NotExecuted},
		{callErr(client.ClassNotExecuted, client.ErrUnavailable), history.NotExecuted},
		{callErr(client.ClassNotGranted, &client.InsufficientLeaseError{}), history.Indeterminate},
		{callErr(client.ClassIndeterminate, client.ErrIndeterminate), history.Indeterminate},
		{callErr(client.ClassIndeterminate, client.ErrClosed), history.Indeterminate},
	} {
		if got := acquireOutcome(c.err); got != c.want {
			t.Errorf("an acquire with %v is %v, want %v", c.err, got, c.want)
		}
	}
	for _, c := range []struct {
		err  error
		want history.Outcome
	}{
		{nil, history.Released},
		{callErr(client.ClassNotGranted, client.ErrNotHeld), history.NotHeld},
		{callErr(client.ClassNotExecuted, client.ErrClosed), history.NotExecuted},
		{callErr(client.ClassIndeterminate, client.ErrIndeterminate), history.Indeterminate},
	} {
		if got := releaseOutcome(c.err); got != c.want {
			t.Errorf("a release with %v is %v, want %v", c.err, got, c.want)
		}
	}
}

func TestCrashesInLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("time=1 level=INFO msg=serving\npanic: nil map\n\ngoroutine 1\nWARNING: DATA RACE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := crashes(path); len(got) != 2 {
		t.Errorf("found %q", got)
	}
}

// A server that cannot start is an error of the run, and says where its log is.
func TestServerThatDoesNotStart(t *testing.T) {
	if !apart(t) {
		return
	}
	n := &node{name: "n1", dir: t.TempDir(), binary: "/bin/false"}
	if err := n.start(context.Background()); err == nil {
		t.Fatal("started")
	} else if want := "n1 ended when it was started: exit status 1; its log: " + n.logFile(); err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if n.running() {
		t.Error("it is said to run")
	}
}
