package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestThreeNodesAgree(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	n.grant(t, "a", "b")
	if s := r.same(); s.Keys != 2 || s.Token != 2 {
		t.Errorf("%d keys, token %d", s.Keys, s.Token)
	}
	for _, other := range r.nodes {
		if other != n {
			want := n.cfg.Client
			other.await(t, "the leader's address", func(s *server) bool { return s.leader == want })
		}
	}
}

func TestLeaderIsReplacedAndComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	n.grant(t, "a", "b")
	name := n.cfg.Node
	if err := r.stop(name); err != nil {
		t.Fatal(err)
	}
	next := r.leader()
	if len(next.state) != 2 || next.counter != 2 {
		t.Errorf("the next leader starts with %d keys and token %d", len(next.state), next.counter)
	}
	next.grant(t, "c")
	r.start(name)
	if s := r.same(); s.Keys != 3 {
		t.Errorf("%d keys", s.Keys)
	}
}

func TestTransferIsQuickAndLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	n.grant(t, "a")
	r.same()
	start := time.Now()
	if err := n.Transfer(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	n.await(t, "deposed", func(s *server) bool { return len(s.deposed) == 1 })
	next := r.leader()
	t.Logf("the next leader served after %v", time.Since(start))
	next.grant(t, "b")
	if s := r.same(); s.Keys != 2 {
		t.Errorf("%d keys", s.Keys)
	}
	if err := n.Transfer(t.Context(), ""); err == nil {
		t.Error("a follower handed a lead over")
	}
}

func TestNewcomerJoinsAndAnotherLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	n.grant(t, "a")
	cfg := r.cfgs["n1"]
	cfg.Node, cfg.Join, cfg.Dir, cfg.Client, cfg.Listen = "n4", true, t.TempDir(), "client-n4:1", FreeAddr(t)
	r.cfgs["n4"] = cfg
	r.start("n4")
	if err := n.AddMember(t.Context(), "n4", cfg.Listen, cfg.Client); err != nil {
		t.Fatal(err)
	}
	for len(n.view.Load().Voters) != 4 {
		time.Sleep(time.Millisecond)
	}
	r.same()
	var out string
	for name := range r.nodes {
		if name != n.cfg.Node && name != "n4" {
			out = name
		}
	}
	gone := r.nodes[out]
	if err := n.RemoveMember(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	<-gone.stopped
	if err := r.stop(out); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("the removed node ended with %v", err)
	}
	n.grant(t, "b")
	if s := r.same(); len(s.Members) != 3 || s.Keys != 2 {
		t.Errorf("%d members, %d keys", len(s.Members), s.Keys)
	}
}

func TestWipedDiskIsRefusedUnderItsOldName(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	n := r.leader()
	var wiped string
	for name := range r.nodes {
		if name != n.cfg.Node {
			wiped = name
		}
	}
	id := NodeID(wiped)
	for { // until its instance is known to all
		if m, ok := n.view.Load().member(id); ok && m.Instance != "" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r.same()
	if err := r.stop(wiped); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"wal", "snap"} {
		if err := os.RemoveAll(filepath.Join(r.cfgs[wiped].Dir, sub)); err != nil {
			t.Fatal(err)
		}
	}
	w := r.start(wiped)
	<-w.stopped
	err := r.stop(wiped)
	if err == nil || !strings.Contains(err.Error(), "cluster remove "+wiped) {
		t.Errorf("the wiped node ended with %v", err)
	}
	n.grant(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := n.RemoveMember(ctx, wiped); err != nil {
		t.Errorf("the way out is closed: %v", err)
	}
}
