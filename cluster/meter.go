package cluster

import (
	"math/bits"
	"sync/atomic"
	"time"

	"ticketing/cluster/core"
	"ticketing/shard"
)

// meter is what is counted and measured outside the core. It may be read by any
// goroutine.
type meter struct {
	commit, applied atomic.Uint64 // indexes
	leaders         atomic.Uint64 // changes of the leader seen
	snapshots       atomic.Uint64 // of this node's own state, written
	received        atomic.Uint64 // snapshots that came from a leader
	deposes         atomic.Uint64
	overheard       atomic.Uint64 // messages dropped, for too many waited

	fsync [shard.HistogramBuckets]atomic.Uint64
	nanos atomic.Uint64
}

func (m *meter) note(kind core.NoticeKind) {
	if kind == core.NoticeDepose {
		m.deposes.Add(1)
	}
}

// synced counts how long it took until a write was on the disk.
func (m *meter) synced(took time.Duration) {
	bucket := bits.Len64(uint64(took) >> 16)
	m.fsync[min(bucket, len(m.fsync)-1)].Add(1)
	m.nanos.Add(uint64(took))
}

func (m *meter) histogram() (h shard.Histogram) {
	for i := range m.fsync {
		h.Buckets[i] = m.fsync[i].Load()
	}
	h.SumNanos = m.nanos.Load()
	return h
}
