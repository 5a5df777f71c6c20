package cluster

import (
	"testing"

	"ticketing/cluster/state"
)

// Whenever connections to a node are made anew, raft is told that what was under
// way to it may be lost: rafthttp says nothing of it.
func TestNewConnectionsAreTold(t *testing.T) {
	cfg := Config{Node: "n1", Cluster: "test", Peers: []Peer{{"n1", FreeAddr(t)}, {"n2", FreeAddr(t)}},
		Client: "client-n1:1", Dir: t.TempDir(), Loops: 1, Logger: testLog(t)}
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.disk.close()
	defer n.ln.Close()
	l := newLinks(n)
	if err := l.start(); err != nil {
		t.Fatal(err)
	}
	defer l.stop()
	other := state.Member{ID: NodeID("n2"), Name: "n2", Peer: cfg.Peers[1].Addr}
	told := func() int { return len(n.inbox.take(arrivals{}).calls) }
	l.link(other)
	if told() < 2 { // that it was out of reach, and that a snapshot was lost
		t.Error("raft is not told of a new link")
	}
	l.renew(l.known[other.ID])
	if told() < 2 {
		t.Error("raft is not told of a renewed link")
	}
}
