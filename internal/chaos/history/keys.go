package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// patience is how long porcupine may think about one key.
	patience = 30 * time.Second
	// narrowed is of how many keys the violating window is looked for, which
	// takes a while.
	narrowed = 5
)

// Keys checks for each key that some order of decisions explains every answer
// (protocol §3, §4, §10). The key is free or held by one token; a grant needs
// it free, Released needs that token to hold it, NotHeld needs it not to, and a
// timeout needs it held.
//
// What happens unseen is an action of its own that may be taken at any time
// since it became possible, or not at all: the end of a lease, from the
// earliest instant that Bounds allows; a release that was not answered, from
// its call. A timeout is explained by any acquire without an answer: that one
// may have been granted.
func Keys(ops []Op, b Bounds) (all []Violation) {
	keys, parts := ByKey(ops)
	for _, key := range keys {
		part := parts[key]
		switch explain(part, b, 0, Never, free) {
		case porcupine.Illegal:
			if len(all) >= narrowed {
				all = append(all, found("keys", nil, "no order of decisions explains the answers about %q", key))
				continue
			}
			window := narrow(part, b)
			all = append(all, found("keys", window, "no order of decisions explains the answers about %q (%d of its calls are enough to see it)",
				key, len(window)))
		case porcupine.Unknown:
			all = append(all, found("keys", nil, "whether the answers about %q can be explained was not found out in %v", key, patience))
		}
	}
	return all
}

// narrow returns the fewest calls in a row, in time, that cannot be explained.
func narrow(ops []*Op, b Bounds) (window []*Op) {
	var ends []Instant
	for _, o := range ops {
		ends = append(ends, o.Return)
	}
	slices.Sort(ends)
	illegal := func(from, to Instant, state uint64) bool {
		return explain(ops, b, from, to, state) == porcupine.Illegal
	}
	// Calls that had not returned at the end of a shorter window may have had
	// their effect or not, so that a longer one is illegal too.
	i, _ := slices.BinarySearchFunc(ends, true, func(end Instant, _ bool) int {
		if illegal(0, end, free) {
			return 0
		}
		return -1
	})
	last := Never
	if i < len(ends) {
		last = ends[i]
	}
	// And nothing is known of the state in which a window begins.
	i, _ = slices.BinarySearchFunc(ends, true, func(end Instant, _ bool) int {
		if illegal(end, last, anything) {
			return -1
		}
		return 0
	})
	first := Instant(0)
	if i > 0 {
		first = ends[i-1]
	}
	for _, o := range ops {
		if o.Return >= first && o.Call <= last && o.Outcome != Busy && o.Outcome != NotExecuted {
			window = append(window, o)
		}
	}
	return window
}

// The state of a key is the token that holds it, or one of these.
const (
	free     uint64 = 0
	anything uint64 = math.MaxUint64 // not known
)

// An action is what may be done to a key, or be seen of it.
type action uint8

const (
	grant      action = iota // the token takes the free key
	maybeGrant               // the token takes it if it is free, or this did not happen
	freed                    // the token, which holds it, gives it back
	maybeFreed               // the token gives it back if it holds it, or this did not happen
	notHeld                  // the token does not hold it
	held                     // something holds it
)

type step struct {
	action action
	token  uint64
}

// take does a step and reports whether it was possible.
func (s step) take(state uint64) (ok bool, next uint64) {
	switch s.action {
	case grant:
		return state == free || state == anything, s.token
	case maybeGrant:
		if state == free {
			return true, s.token
		}
		return true, state
	case freed:
		return state == s.token || state == anything, free
	case maybeFreed:
		if state == s.token {
			return true, free
		}
		return true, state
	case notHeld:
		return state != s.token, state
	default:
		return state != free, state
	}
}

// explain asks porcupine about the calls on one key that had not returned
// before from, and those that were made until to; what had not returned by then
// may have happened or not.
func explain(ops []*Op, b Bounds, from, to Instant, initial uint64) porcupine.CheckResult {
	model := porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := input.(step).take(state.(uint64))
			return ok, next
		},
	}
	p := puzzle{b: b, from: from, to: to}
	p.add(ops)
	return porcupine.CheckOperationsTimeout(model, p.steps, patience)
}

// A puzzle is the steps about one key whose order is to be found.
type puzzle struct {
	b        Bounds
	from, to Instant
	steps    []porcupine.Operation
}

// put adds a step that was taken at some instant from call to last.
func (p *puzzle) put(a action, token uint64, call, last Instant) {
	p.steps = append(p.steps, porcupine.Operation{Input: step{a, token}, Call: int64(call), Return: int64(last)})
}

func (p *puzzle) add(ops []*Op) {
	var grants []*Op
	loose := map[uint64]Instant{} // when a token's hold can end unseen
	unknown := Never              // when an acquire without an answer was first called
	for _, o := range ops {
		switch {
		case o.Return < p.from || o.Call > p.to:
		case o.Outcome == Granted:
			grants = append(grants, o)
			loose[o.Token] = p.b.earliestEnd(o)
		case o.Kind == Acquire && o.Outcome == Indeterminate:
			unknown = min(unknown, o.Call)
		}
	}
	for _, o := range ops {
		if o.Return < p.from || o.Call > p.to {
			continue
		}
		seen := o.Return <= p.to
		switch {
		case o.Outcome == Granted:
			s := p.b.decided(o)
			if s.last <= p.to {
				p.put(grant, o.Token, s.first, s.last)
			} else {
				p.put(maybeGrant, o.Token, s.first, Never)
			}
		case o.Outcome == Released && seen:
			p.put(freed, o.Token, o.Call, o.Return)
			delete(loose, o.Token) // it held until then
		case o.Outcome == NotHeld && seen && o.Retried:
			p.put(maybeFreed, o.Token, o.Call, o.Return)
		case o.Outcome == NotHeld && seen:
			p.put(notHeld, o.Token, o.Call, o.Return)
		case o.Kind == Release && o.Outcome != NotExecuted:
			if since, ok := loose[o.Token]; ok {
				loose[o.Token] = min(since, o.Call)
			}
		case o.Outcome == TimedOut && seen && o.Return < unknown:
			// It was held when the wait ended.
			p.put(held, 0, min(o.Call.Add(o.wait()), o.Return), o.Return)
		}
	}
	// A hold that ends unseen does so before the next grant, if it matters.
	slices.SortFunc(grants, func(a, b *Op) int { return cmp.Compare(a.Token, b.Token) })
	next := Never
	for _, o := range slices.Backward(grants) {
		if since, ok := loose[o.Token]; ok && since <= next {
			p.put(maybeFreed, o.Token, since, next)
		}
		if s := p.b.decided(o); s.last <= p.to {
			next = min(next, s.last)
		}
	}
}
