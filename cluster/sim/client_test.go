package sim

import (
	"time"

	"ticketing/cluster/core"
)

// client asks one thing after another, of the node it takes for the leader, and
// remembers what it holds.
type client struct {
	w     *world
	index int
	at    uint64 // the node it asks
	ids   uint64
	asked *request // under way; nil: none
	hold  *belief  // what it holds, or held last
	last  bool     // it asks nothing any more
}

const patience = 4 * time.Second // until a client takes its connection for dead

func newClient(w *world, index int) *client {
	c := &client{w: w, index: index, at: 1}
	w.after(w.upTo(time.Second), c.act)
	return c
}

// act begins the next request.
func (c *client) act() {
	w := c.w
	if c.last || c.asked != nil {
		return
	}
	stray, among := 0.4, keys
	if w.wrong.cutsOnly {
		stray, among = 0.7, 30*keys
	}
	if w.chance(stray) { // any node: stale ones must not lie
		c.at = 1 + uint64(w.rng.IntN(len(w.nodes)))
	} else if l := w.leader(); l != nil {
		c.at = l.id
	}
	c.ids++
	r := &request{id: uint64(c.index+1)<<32 | c.ids, client: c, sent: w.now, boundary: w.judge.greatest}
	if b := c.hold; b != nil && !b.over && w.chance(0.8) {
		r.key, r.token = b.key, b.token
		w.judge.releasing(b)
	} else {
		r.key = keyName(w.rng.IntN(among))
		r.wait, r.lease = uint8(w.rng.IntN(3)), uint8(1+w.rng.IntN(3))
		if b != nil && !b.over && w.now >= b.end {
			c.hold = nil
		}
	}
	c.asked = r
	n := w.node(c.at)
	w.after(100*time.Microsecond+w.upTo(2*time.Millisecond), func() {
		if !n.up {
			w.after(w.upTo(time.Millisecond), func() { c.hear(&answer{request: r, outcome: unknown}) })
			return
		}
		n.deliver(func() { n.server.handle(r) })
	})
	w.after(patience, func() {
		if c.asked == r {
			n.deliver(func() { n.server.leave(c) })
			c.hear(&answer{request: r, outcome: unknown})
		}
	})
}

// reply lets an answer go to its client. Connections are cut now and then.
func (w *world) reply(_ *node, a *answer) {
	if a.request == nil || !w.calm && w.chance(0.02) {
		return
	}
	w.after(100*time.Microsecond+w.upTo(2*time.Millisecond), func() { a.request.client.hear(a) })
}

// hear takes an answer.
func (c *client) hear(a *answer) {
	if c.asked != a.request {
		return // it gave that up
	}
	c.asked = nil
	c.w.judge.answered(a)
	switch {
	case a.outcome == granted:
		c.hold = c.w.judge.believe(c, a)
	case a.request.token != 0 && a.outcome != notDone && a.outcome != unknown:
		c.hold = nil
	case a.request.token != 0: // it tries again, or lets the lease run out
	}
	if a.outcome == notDone || a.outcome == unknown {
		c.at = 1 + uint64(c.w.rng.IntN(len(c.w.nodes)))
	}
	think := []time.Duration{10 * time.Millisecond, 300 * time.Millisecond}[c.w.rng.IntN(2)]
	c.w.after(c.w.upTo(think), c.act)
}

// serving reports whether a node leads and everything is settled there.
func (n *node) settled() bool {
	if !n.up || n.core.Role() == core.Elected || n.core.Role() == core.Deposed {
		return false
	}
	for loop := range n.server.turns {
		if len(n.server.turns[loop]) != 0 {
			return false
		}
	}
	return true
}
