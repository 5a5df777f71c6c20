package state

import "slices"

const (
	// maxJump is how far ahead of the counter a token may be. What a leader
	// can have granted and not yet proposed is far less.
	maxJump = 1 << 17

	// maxMissing bounds the tokens that have not come yet, and so the memory
	// for them.
	maxMissing = 1 << 18
)

// span are the tokens from first to last.
type span struct{ first, last uint64 }

// gaps are the tokens that were skipped: issued by the leader of this term,
// below the counter, and in no entry yet.
type gaps struct {
	spans   []span // rising; two never touch
	missing uint64 // tokens in them
}

// skip adds tokens that are greater than the counter, and so than every one
// there is.
func (g *gaps) skip(first, last uint64) {
	g.spans = append(g.spans, span{first, last})
	g.missing += last - first + 1
}

// find returns the index of the span that a token is in.
func (g *gaps) find(token uint64) (int, bool) {
	return slices.BinarySearchFunc(g.spans, token, func(s span, token uint64) int {
		switch {
		case s.last < token:
			return -1
		case s.first > token:
			return 1
		}
		return 0
	})
}

// take removes a token; false if it is not missing.
func (g *gaps) take(token uint64) bool {
	i, ok := g.find(token)
	if !ok {
		return false
	}
	g.missing--
	switch s := &g.spans[i]; {
	case s.first == s.last:
		g.spans = slices.Delete(g.spans, i, i+1)
	case token == s.first:
		s.first++
	case token == s.last:
		s.last--
	default:
		behind := span{token + 1, s.last}
		s.last = token - 1
		g.spans = slices.Insert(g.spans, i+1, behind)
	}
	return true
}

func (g *gaps) clear() { g.spans, g.missing = g.spans[:0], 0 }

// copy makes g what from is.
func (g *gaps) copy(from *gaps) {
	g.spans, g.missing = append(g.spans[:0], from.spans...), from.missing
}

// check counts what gaps that were read leave out, and returns what is wrong
// with them, or "".
func (g *gaps) check(counter uint64) string {
	g.missing = 0
	for i, s := range g.spans {
		switch {
		case s.first == 0 || s.first > s.last || s.last >= counter:
			return "a gap is not a range below the counter"
		case i > 0 && g.spans[i-1].last+1 >= s.first:
			return "gaps are not in order"
		case s.last-s.first >= maxMissing-g.missing:
			return "too many tokens are missing"
		}
		g.missing += s.last - s.first + 1
	}
	return ""
}
