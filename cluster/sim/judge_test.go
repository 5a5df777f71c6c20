package sim

import (
	"fmt"

	"ticketing/lease"
)

// belief is what a client believes: that it holds a key with a token from the
// moment its grant was confirmed until its lease ends or it sends a release.
type belief struct {
	key        string
	token      uint64
	start, end moment
	full       moment // the end of its lease
	over       bool   // a release was answered for good
	released   bool
	releases   int // sent
}

// stateAt is the hash that a node had after an entry.
type stateAt struct {
	hash uint64
	node uint64
}

// judge holds what clients were told against each other.
type judge struct {
	w        *world
	verdict  error
	states   map[uint64]stateAt
	beliefs  map[string][]*belief // by key, in the order they were told
	tokens   map[uint64]*belief
	greatest uint64 // token that a client was told of

	grants, answers int
}

func (j *judge) init(w *world) {
	j.w = w
	j.states, j.beliefs, j.tokens = map[uint64]stateAt{}, map[string][]*belief{}, map[uint64]*belief{}
}

func (j *judge) wrong(format string, args ...any) {
	if j.verdict == nil {
		j.verdict = fmt.Errorf("at %.6f s: %s", float64(j.w.now)/1e9, fmt.Sprintf(format, args...))
	}
}

// applied holds a node's state against that of the others at the same entry.
func (j *judge) applied(n *node) {
	m := n.core.Machine()
	index, hash := m.Index(), m.Hash()
	if s, ok := j.states[index]; ok && s.hash != hash {
		j.wrong("node %d and node %d differ after entry %d", n.id, s.node, index)
	}
	j.states[index] = stateAt{hash, n.id}
}

// believe takes note of a grant that a client was told of.
func (j *judge) believe(c *client, a *answer) *belief {
	r := a.request
	full := a.at.add(lease.Seconds(r.lease))
	b := &belief{key: r.key, token: a.token, start: a.at, end: full, full: full}
	j.grants++
	if other := j.tokens[a.token]; other != nil {
		j.wrong("token %d was granted twice, for %s and %s", a.token, other.key, r.key)
	}
	if a.token <= r.boundary {
		j.wrong("token %d was granted to a request sent when %d was known", a.token, r.boundary)
	}
	for _, other := range j.beliefs[r.key] {
		if b.start < other.end && other.start < b.end {
			j.wrong("%s is held with token %d from %v to %v, and with %d from %v to %v",
				r.key, other.token, other.start, other.end, b.token, b.start, b.end)
		}
	}
	j.beliefs[r.key] = append(j.beliefs[r.key], b)
	j.tokens[a.token] = b
	j.greatest = max(j.greatest, a.token)
	return b
}

// releasing takes note that a client sends a release: it believes no more.
func (j *judge) releasing(b *belief) {
	b.releases++
	b.end = min(b.end, j.w.now)
}

// answered judges what a client was told.
func (j *judge) answered(a *answer) {
	j.answers++
	r := a.request
	if r.token == 0 {
		return
	}
	b := j.tokens[r.token]
	switch a.outcome {
	case released:
		if b.released {
			j.wrong("token %d was released twice", r.token)
		}
		b.released, b.over = true, true
	case notHeld:
		// It held until the lease's end at least; only an earlier release whose
		// fate is not known could have ended it.
		if b.releases == 1 && j.w.now < b.full {
			j.wrong("token %d is said not to hold %s, which it held until %v at least", r.token, r.key, b.full)
		}
		b.over = true
	}
}

// end judges the world when its faults have long ended.
func (j *judge) end() {
	if j.verdict != nil {
		return
	}
	l := j.w.leader()
	if l == nil {
		j.wrong("nobody leads at the end")
		return
	}
	for _, n := range j.w.nodes {
		if n.up && !n.settled() {
			j.wrong("node %d has turns that were neither confirmed nor deposed", n.id)
		}
	}
	for _, c := range j.w.clients {
		if c.asked != nil {
			j.wrong("client %d was never answered", c.index)
		}
	}
	m := l.core.Machine()
	for _, n := range j.w.nodes {
		_, member := m.Member(n.id)
		if member && n.core.Machine().Index() != m.Index() {
			j.wrong("node %d is at entry %d, the leader at %d", n.id, n.core.Machine().Index(), m.Index())
		}
	}
	for held := range m.Held {
		if b := j.tokens[held.Token]; b != nil && b.released {
			j.wrong("token %d, released, holds %s at the end", held.Token, held.Key)
		}
	}
}
