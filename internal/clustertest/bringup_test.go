package clustertest

import (
	"strings"
	"syscall"
	"testing"

	"ticketing/client"
)

// Three nodes, their environment and nothing else: one leads, the others send
// clients there, and what is locked outlives the leader, a minority and all.
func TestBringUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	leader := c.settled()
	for _, n := range c.nodes {
		if code, body := n.get("/readyz"); code != 200 {
			t.Errorf("%s: /readyz is %d %s", n.name, code, body)
		}
		if got := strings.Join(n.members(), " "); got != "n1 n2 n3" {
			t.Errorf("%s: members %s", n.name, got)
		}
		if n != leader {
			r := n.raw()
			r.acquire(0, 7, "k")
			if got, want := r.rest(), "M"+leader.client()+"\n"; got != want {
				t.Errorf("%s, which follows, answers %q, want %q", n.name, got, want)
			}
		}
	}
	r := leader.raw()
	r.acquire(0, 7, "k")
	if got, want := r.frame(19), "A\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07k\n"; got != want {
		t.Fatalf("the leader answers %q, want %q", got, want)
	}
	out := c.command(0, "cluster", "status", "--admin-addr="+leader.admin())
	if !strings.Contains(out, "cluster ticketing: "+leader.name+" leads, term ") || strings.Count(out, "follower") != 2 {
		t.Errorf("ticketing cluster status:\n%s", out)
	}

	// Two of three are no more: the third answers nothing but that.
	var last *node
	for _, n := range c.nodes {
		if n != leader && last == nil {
			last = n
			continue
		}
		n.kill()
	}
	c.until("/readyz is 503 on a node that is alone", func() bool {
		code, body := last.get("/readyz")
		return code == 503 && strings.Contains(string(body), "no leader")
	})
	r = last.raw()
	r.acquire(0, 8, "k")
	if got := r.rest(); got != "Eno_leader\n" {
		t.Errorf("a node that is alone answers %q", got)
	}

	// All end and come back; the lock is held as before.
	last.signal(syscall.SIGTERM)
	last.exits(0)
	c.startAll()
	cl := c.dial()
	if _, err := cl.Acquire(t.Context(), "k", 0, client.Wait(0)); client.ClassOf(err) != client.ClassNotGranted {
		t.Errorf("a lock is lost: %v", err)
	}
	if err := cl.Release(t.Context(), "k", 1); err != nil {
		t.Errorf("its token does not release it: %v", err)
	}
	ticket, err := cl.Acquire(t.Context(), "k", 0)
	if err != nil || ticket.Token() != 2 {
		t.Fatalf("%v %v", ticket, err)
	}
}

// A node that another cluster's node finds is not taken for one of its own.
func TestTwoClustersDoNotMix(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.nodes[0].start()
	c.nodes[1].start()
	stray := c.nodes[2].start("CLUSTER_NAME=other")
	one := c.nodes[0]
	c.until("two nodes of one cluster find each other", func() bool { return one.status().Leader != "" })
	c.until("the third is refused", func() bool { return strings.Contains(stray.stderr.String(), `is of cluster \"ticketing\"`) })
	if s := stray.status(); s.Leader != "" {
		t.Errorf("a node of another cluster follows %s", s.Leader)
	}
}
