package cluster

import (
	"slices"
	"sync"

	"ticketing/cluster/core"
	"ticketing/shard"
)

// Server is what the engine leads: package loop's. Lead and Depose may take
// their time, Confirm must not.
type Server interface {
	Lead(epoch uint64, s shard.LeadState) error
	Confirm(loop int, seq uint64)
	Depose(epoch uint64, d shard.Deposed)
	Follow(leader string)
}

// herald tells the server about the lead, in order and on a goroutine of its
// own: the server takes a while to load its keys, and the consensus must not
// miss a heartbeat meanwhile. Confirmations do not pass here. They cannot
// overtake: what they confirm was submitted after a Lead, and no turn of an
// epoch is confirmed after its Depose is queued.
type herald struct {
	server Server
	failed func(error)

	mu    sync.Mutex
	queue []func() error
	wake  chan struct{}
}

func newHerald(server Server, failed func(error)) *herald {
	return &herald{server: server, failed: failed, wake: make(chan struct{}, 1)}
}

// tell queues a notice about the lead.
func (h *herald) tell(n core.Notice, c *core.Core) {
	var f func() error
	switch n.Kind {
	case core.NoticeLead:
		keys := make([]shard.Held, 0, c.Machine().Len())
		for held := range c.Machine().Held {
			keys = append(keys, shard.Held(held))
		}
		s := shard.LeadState{Counter: c.Machine().Counter(), Keys: slices.Values(keys)}
		f = func() error { return h.server.Lead(n.Epoch, s) }
	case core.NoticeDepose:
		f = func() error {
			h.server.Depose(n.Epoch, shard.Deposed{Proposed: n.Proposed, Leader: n.Leader})
			return nil
		}
	case core.NoticeFollow:
		f = func() error { h.server.Follow(n.Leader); return nil }
	default:
		return
	}
	h.mu.Lock()
	h.queue = append(h.queue, f)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run tells the server until stop is closed.
func (h *herald) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-h.wake:
		}
		h.mu.Lock()
		queue := h.queue
		h.queue = nil
		h.mu.Unlock()
		for _, f := range queue {
			if err := f(); err != nil {
				h.failed(err)
				return
			}
		}
	}
}
