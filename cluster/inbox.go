package cluster

import (
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/core"
	"ticketing/shard"
)

// maxMessages bounds the messages that wait for a pass. More are dropped: raft
// sends again what matters.
const maxMessages = 8192

// inbox is what came in since the last pass, from any goroutine.
type inbox struct {
	wake chan struct{} // holds one; who puts something in fills it

	mu    sync.Mutex
	in    arrivals
	limit int // messages
}

type arrivals struct {
	turns    []shard.Turn
	messages []*raftpb.Message
	calls    []func(*core.Core)
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1), limit: maxMessages} }

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) turn(t shard.Turn) {
	b.mu.Lock()
	b.in.turns = append(b.in.turns, t)
	b.mu.Unlock()
	b.signal()
}

// message reports whether there was room.
func (b *inbox) message(m *raftpb.Message) bool {
	b.mu.Lock()
	ok := len(b.in.messages) < b.limit
	if ok {
		b.in.messages = append(b.in.messages, m)
	}
	b.mu.Unlock()
	b.signal()
	return ok
}

// call has f run on the core's goroutine.
func (b *inbox) call(f func(*core.Core)) {
	b.mu.Lock()
	b.in.calls = append(b.in.calls, f)
	b.mu.Unlock()
	b.signal()
}

// take returns what came in and leaves the memory of old for what comes.
func (b *inbox) take(old arrivals) arrivals {
	clear(old.turns)
	clear(old.messages)
	clear(old.calls)
	b.mu.Lock()
	defer b.mu.Unlock()
	in := b.in
	b.in = arrivals{old.turns[:0], old.messages[:0], old.calls[:0]}
	return in
}
