package core

import (
	"fmt"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// A snapshot that is lost without a word keeps the leader from sending anything
// else to that node, for ever: whoever loses one has to say so.
func TestLostSnapshotMustBeReported(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[3] = true
	for i := range uint64(5) {
		n.submit(0, i+1, grant(fmt.Sprint("key", i), i+1))
		w.settle()
	}
	s, err := n.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	n.Compact(s.GetMetadata().GetIndex())
	lost := 0
	w.lost = func(m *raftpb.Message) bool {
		if m.GetType() == raftpb.MsgSnap && lost == 0 {
			lost++
			return true
		}
		return false
	}
	w.cut[3] = false
	w.tick(3 * electionTicks)
	if lost != 1 || w.nodes[3].Machine().Len() != 0 {
		t.Fatalf("%d snapshots were lost, the node has %d keys", lost, w.nodes[3].Machine().Len())
	}
	n.Unreachable(3)
	n.SnapshotSent(3, false)
	w.tick(3)
	if w.nodes[3].Machine().Len() != 5 {
		t.Fatalf("the node has %d keys", w.nodes[3].Machine().Len())
	}
	w.equal()
}
