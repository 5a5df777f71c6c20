package core

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// The buffer of an entry is used again for the next. That is sound only as long
// as raft copies what it is given: nothing that leaves a pass may lie in it.
func TestRaftCopiesWhatIsProposed(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	r, err := n.Ready()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Entries) != 1 || len(r.Messages) == 0 {
		t.Fatalf("%d entries and %d messages in the pass", len(r.Entries), len(r.Messages))
	}
	buffer := n.turns.entry
	if len(buffer) == 0 || !slices.Equal(buffer, r.Entries[0].GetData()) {
		t.Fatal("the entry was not made in the buffer")
	}
	for i := range buffer {
		buffer[i] = 0xff
	}
	if slices.Equal(buffer, r.Entries[0].GetData()) {
		t.Error("the entry on its way to the disk lies in the buffer")
	}
	for _, m := range r.Messages {
		for _, e := range m.GetEntries() {
			if m.GetType() == raftpb.MsgApp && slices.Equal(buffer, e.GetData()) {
				t.Errorf("the entry on its way to node %d lies in the buffer", m.GetTo())
			}
		}
	}
	w.send(1, slices.Clone(r.Messages))
	w.send(1, n.Persisted())
	w.settle()
	w.tick(1)
	w.equal()
	if n.Machine().Len() != 1 {
		t.Errorf("%d keys are held, want 1", n.Machine().Len())
	}
}
