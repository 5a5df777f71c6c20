package cluster_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// openFiles are what this process has open, by descriptor.
func openFiles(t *testing.T) []string {
	t.Helper()
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if to, err := os.Readlink(dir + "/" + e.Name()); err == nil { // but for the directory itself
			all = append(all, e.Name()+" "+to)
		}
	}
	return all
}

// A cluster that was brought up, led, handed on and ended leaves no goroutine and
// no descriptor behind.
func TestClusterLeavesNothingBehind(t *testing.T) {
	round := func() {
		t.Run("round", func(t *testing.T) {
			sites := startSites(t, 3, 2)
			before := leader(t, sites)
			c := newClient(t, sites)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, key := range []string{"a", "b"} {
				if _, err := c.Acquire(ctx, key, time.Second); err != nil {
					t.Fatal(err)
				}
				if key == "a" {
					if err := before.node.Transfer(ctx, ""); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	round() // what is made once for the process
	running, files := goleak.IgnoreCurrent(), openFiles(t)
	round()
	pool := goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1") // gnet's workers, which end when they were idle for long
	if err := goleak.Find(running, pool); err != nil {
		t.Error(err)
	}
	// Connections between nodes of one process end at both sides, a moment apart.
	var left []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = openFiles(t); len(left) <= len(files) {
			return
		}
	}
	t.Errorf("%d descriptors were open and %d are; new: %q", len(files), len(left),
		slices.DeleteFunc(left, func(f string) bool { return slices.Contains(files, f) }))
}
