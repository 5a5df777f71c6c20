package cluster

import (
	"fmt"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/core"
)

func TestWhatIsKeptIsBoundedByEntriesAndBytes(t *testing.T) {
	var g grown
	g.add([]*raftpb.Entry{{Data: make([]byte, 100)}, {}})
	if g.entries != 2 || g.bytes != 100+2*entryBytes {
		t.Errorf("%+v", g)
	}
	for _, c := range []struct {
		g           grown
		every, want uint64
	}{
		{grown{20_000, 1 << 20}, defaultSnapshotEvery, keptEntries},
		{grown{20_000, keptBytes}, defaultSnapshotEvery, keptEntries},
		{grown{1000, 64 << 20}, defaultSnapshotEvery, 500},
		{grown{64, 64 << 20}, defaultSnapshotEvery, 32},
		{grown{10, 1000}, 10, 10},
	} {
		if got := c.g.keep(c.every); got != c.want {
			t.Errorf("%+v, a snapshot every %d: %d entries are kept, want %d", c.g, c.every, got, c.want)
		}
	}
}

// A log of few large entries makes a snapshot too.
func TestLargeEntriesMakeASnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	n := r.leader()
	n.inbox.call(func(*core.Core) { n.since.bytes = snapshotBytes })
	for i := 0; n.meter.snapshots.Load() == 0; i++ { // the test's time ends if none is made
		n.grant(t, fmt.Sprint("key", i))
	}
}
