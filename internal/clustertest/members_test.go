package clustertest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"ticketing/client"
)

// A node whose disk was wiped is refused under its old name, and its message is
// a way out that works.
func TestWipedDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	leader := c.settled()
	victim := c.follower(leader)
	// Its instance must be known, which takes a moment after the start.
	c.until("all instances are known", func() bool {
		for _, m := range leader.status().Members {
			if m.Instance == "" {
				return false
			}
		}
		return true
	})
	victim.signal(syscall.SIGTERM)
	victim.exits(0)
	if err := os.RemoveAll(victim.data()); err != nil {
		t.Fatal(err)
	}
	log := victim.start().exits(1)
	for _, want := range []string{"ticketing cluster remove " + victim.name, "ticketing cluster add " + victim.name, "CLUSTER_JOIN=true"} {
		if !strings.Contains(log, want) {
			t.Errorf("the message does not say %q:\n%s", want, log)
		}
	}

	c.change("remove", victim.name)
	if err := os.RemoveAll(victim.data()); err != nil {
		t.Fatal(err)
	}
	c.change("add", victim.name, "--peer="+victim.peer(), "--client="+victim.client())
	victim.start("CLUSTER_JOIN=true")
	c.until("it votes again", func() bool { return strings.Join(victim.members(), " ") == "n1 n2 n3" })
	if _, err := c.dial().Acquire(t.Context(), "k", 0); err != nil {
		t.Error(err)
	}
}

// Three nodes become five, under the eyes of a client, and then three again.
func TestJoinAndRemove(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	held, err := c.dial().Acquire(t.Context(), "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1 n2 n3 n4", "n1 n2 n3 n4 n5"} {
		n := c.add()
		out := c.change("add", n.name, "--peer="+n.peer(), "--client="+n.client())
		if !strings.Contains(out, "CLUSTER_JOIN=true") {
			t.Error(out)
		}
		n.start("CLUSTER_JOIN=true", "CLUSTER_LISTEN="+n.peer())
		c.until(n.name+" votes", func() bool { return strings.Join(n.members(), " ") == want })
	}
	leader := c.settled()
	newest := c.nodes[4]
	if leader != newest {
		c.change("transfer", newest.name)
	}
	if leader := c.settled(); leader != newest {
		t.Fatalf("%s leads, want %s", leader.name, newest.name)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("at a leader that was not there when it was granted: %v", err)
	}

	for _, gone := range []*node{c.nodes[0], newest} { // and the leader
		c.change("remove", gone.name)
		if log := gone.exits(1); !strings.Contains(log, "was removed from the cluster") {
			t.Errorf("a node that was removed says\n%s", log)
		}
	}
	leader = c.settled()
	if out := c.command(1, "cluster", "remove", "n9", "--admin-addr="+leader.admin()); !strings.Contains(out, "n9 is no member") {
		t.Error(out)
	}
	// Two of the three left are a majority.
	c.follower(leader).kill()
	ticket, err := c.dial().Acquire(t.Context(), "k", 0, client.Wait(0))
	if err != nil || ticket.Token() <= held.Token() {
		t.Errorf("%v", err)
	}
}

// A node that was not added is told so, and does not serve.
func TestJoinWithoutBeingAdded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	n := c.add().start("CLUSTER_JOIN=true", "CLUSTER_LISTEN="+c.net+".4:7402")
	c.until("it says what it waits for", func() bool { return strings.Contains(n.stderr.String(), "ticketing cluster add") })
	if code, _ := n.get("/readyz"); code != 503 {
		t.Errorf("/readyz is %d", code)
	}
	n.signal(syscall.SIGTERM)
	n.exits(0)
}
