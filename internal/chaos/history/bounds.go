package history

import (
	"slices"
	"time"
)

// Bounds says when grants were decided, as narrowly as a history allows.
//
// A grant was decided after it was asked for and before it was answered. And
// tokens are issued in the order of decisions, over all keys, so it was decided
// after every grant of a smaller token was asked for, and before any of a
// greater one was answered. [Tokens] finds a service that issues tokens in
// another order; whoever uses Bounds may therefore rely on it.
//
// From the decision follows the lease: it ends no earlier than the lease's
// length after it. There is no bound for the latest end: a lease begins when
// the grant is durable, and begins anew under a new leader.
type Bounds struct {
	grants map[uint64]span // by token
}

// A span is when a grant was decided: not before first, not after last.
type span struct{ first, last Instant }

// NewBounds looks at every grant of the history.
func NewBounds(ops []Op) Bounds {
	grants := grantsByToken(ops)
	b := Bounds{grants: make(map[uint64]span, len(grants))}
	asked := Instant(0)
	for _, o := range grants {
		asked = max(asked, o.Call)
		b.grants[o.Token] = span{first: asked}
	}
	answered := Never
	for _, o := range slices.Backward(grants) {
		answered = min(answered, o.Return)
		s := span{b.grants[o.Token].first, answered}
		if s.first > s.last { // tokens out of order: only the call itself counts
			s = span{o.Call, o.Return}
		}
		b.grants[o.Token] = s
	}
	return b
}

// decided returns the bounds of a grant.
func (b Bounds) decided(o *Op) span { return b.grants[o.Token] }

// earliestEnd returns the earliest instant at which the lease can have ended.
func (b Bounds) earliestEnd(o *Op) Instant { return b.grants[o.Token].first.Add(o.lease()) }

// grantsByToken returns the grants in order of tokens.
func grantsByToken(ops []Op) []*Op {
	var grants []*Op
	for i := range ops {
		if ops[i].Outcome == Granted {
			grants = append(grants, &ops[i])
		}
	}
	slices.SortStableFunc(grants, func(a, b *Op) int {
		switch {
		case a.Token < b.Token:
			return -1
		case a.Token > b.Token:
			return 1
		}
		return byCall(a, b)
	})
	return grants
}

// Lateness is by how much clients took leases to end later than they may have
// ended: what the answer took to be read. A service cannot make it smaller.
func Lateness(ops []Op) (most time.Duration) {
	b := NewBounds(ops)
	for i := range ops {
		if o := &ops[i]; o.Outcome == Granted {
			most = max(most, o.Ends.Sub(b.decided(o).last.Add(o.lease())))
		}
	}
	return most
}
