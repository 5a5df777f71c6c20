package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// A node whose disk takes no more stops and says so; the others go on.
func TestDiskThatFailsStopsOneNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	n.grant(t, "a")
	n.inbox.call(func(*core.Core) { n.disk.wal.Close() }) // every write fails from now on
	n.submit("b")
	<-n.stopped
	err := r.stop(n.cfg.Node)
	var f *Fault
	if !errors.As(err, &f) || f.Dir != n.cfg.Dir || !strings.Contains(err.Error(), "the others go on") {
		t.Errorf("it ended with %v", err)
	}
	next := r.leader()
	next.grant(t, "c")
	if s := r.same(); s.Keys < 2 {
		t.Errorf("%d keys", s.Keys)
	}
}

// What to do follows from what is wrong.
func TestRemedies(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC:   "make room",
		syscall.EIO:      "cluster remove",
		os.ErrNotExist:   "is gone",
		syscall.EACCES:   "let the user",
		syscall.ENOTDIR:  "to a directory",
		state.ErrVersion: "the program that wrote it",
	} {
		text := (&disk{dir: "/data"}).fault("write the log", fmt.Errorf("wal: %w", err)).Error()
		for _, part := range []string{"write the log", "/data", err.Error(), want} {
			if !strings.Contains(text, part) {
				t.Errorf("%v: %q does not say %q", err, text, part)
			}
		}
	}
}

// A node that was away for longer than the others' logs reach back gets a
// snapshot, and all start again from what they keep.
func TestNodeFarBehindGetsASnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3, func(c *Config) { c.SnapshotEvery = 10 })
	n := r.leader()
	away := r.other(n).cfg.Node
	if err := r.stop(away); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		n.grant(t, fmt.Sprint("key", i))
	}
	for _, other := range r.nodes { // their logs begin behind what it has
		for other.Status(t.Context()).SnapshotIndex < 40 {
			time.Sleep(time.Millisecond)
		}
	}
	back := r.start(away)
	if s := r.same(); s.Keys != 60 {
		t.Errorf("%d keys", s.Keys)
	}
	if s := back.Status(t.Context()); s.Received == 0 {
		t.Error("it was given the log")
	}
	names := []string{"n1", "n2", "n3"}
	for _, name := range names {
		if err := r.stop(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		r.start(name)
	}
	if n = r.leader(); len(n.state) != 60 || n.counter != 60 {
		t.Errorf("after the restart of all %d keys are held and the token is %d", len(n.state), n.counter)
	}
}

// Data of another node or cluster is not taken for one's own.
func TestForeignDataIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.leader().grant(t, "a")
	if err := r.stop("n1"); err != nil {
		t.Fatal(err)
	}
	for setting, change := range map[string]func(*Config){
		"CLUSTER_NAME":    func(c *Config) { c.Cluster = "another" },
		"CLUSTER_NODE_ID": func(c *Config) { c.Node, c.Peers = "n2", []Peer{{"n2", c.Peers[0].Addr}} },
	} {
		cfg := r.cfgs["n1"]
		change(&cfg)
		if n, err := Open(cfg); err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), cfg.Dir) {
			t.Errorf("%s: %v", setting, err)
			if err == nil {
				n.ln.Close()
				n.disk.close()
			}
		}
	}
}
