package cluster

import "go.etcd.io/raft/v3/raftpb"

const (
	// A snapshot is made when the log has grown by so many entries, or by so many
	// bytes: all of it is in memory until then.
	defaultSnapshotEvery = 20_000
	snapshotBytes        = 64 << 20

	// What stays in memory behind a snapshot, so that a node that was away for a
	// moment needs none: so many entries, and about so many bytes.
	keptEntries = 5_000
	keptBytes   = 32 << 20

	entryBytes = 64 // of an entry besides its data, about
)

// grown is by how much the log has grown.
type grown struct{ entries, bytes uint64 }

func (g *grown) add(entries []*raftpb.Entry) {
	for _, e := range entries {
		g.entries++
		g.bytes += entryBytes + uint64(len(e.GetData()))
	}
}

// keep returns how many of the entries are worth keeping.
func (g *grown) keep(every uint64) uint64 {
	kept := min(keptEntries, every)
	if g.bytes > keptBytes {
		kept = min(kept, g.entries*keptBytes/g.bytes)
	}
	return kept
}
