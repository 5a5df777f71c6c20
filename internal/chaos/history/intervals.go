package history

import "slices"

// Intervals checks the hold that clients believed in: from the answer until the
// release was asked for, or until the lease may have ended. No two of one key
// share an instant.
//
// A client counts the lease from the reading of the answer, so what it believes
// in lasts longer than the lease by what the answer took. That much, which
// [Lateness] measures and only a fencing token covers, is no fault of the
// service and does not count here.
func Intervals(ops []Op, b Bounds) (all []Violation) {
	keys, parts := ByKey(ops)
	for _, key := range keys {
		all = append(all, overlaps(parts[key], b)...)
	}
	return all
}

// overlaps finds holds of one key that share an instant.
func overlaps(ops []*Op, b Bounds) (all []Violation) {
	type hold struct {
		grant, release *Op // release may be nil
		from, to       Instant
	}
	var holds []hold
	releases := firstReleases(ops)
	for _, o := range ops {
		if o.Outcome != Granted {
			continue
		}
		h := hold{grant: o, from: o.Return, to: min(o.Ends, b.earliestEnd(o))}
		if r := releases[o.Token]; r != nil && r.Call < h.to {
			h.release, h.to = r, r.Call
		}
		if h.from < h.to {
			holds = append(holds, h)
		}
	}
	slices.SortStableFunc(holds, func(a, b hold) int { return int(min(1, max(-1, a.from-b.from))) })
	for i := 1; i < len(holds); i++ {
		a, c := holds[i-1], holds[i]
		if c.from >= a.to {
			continue
		}
		window := []*Op{a.grant, c.grant}
		for _, r := range []*Op{releases[a.grant.Token], releases[c.grant.Token]} {
			if r != nil {
				window = append(window, r)
			}
		}
		all = append(all, found("intervals", window, "%q was held under tokens %d and %d at once, from %.6f to %.6f",
			c.grant.Key, a.grant.Token, c.grant.Token, seconds(c.from), seconds(min(a.to, c.to))))
		if a.to > c.to {
			holds[i] = a // the longer one goes on
		}
	}
	return all
}

// firstReleases returns, by token, the release that was asked for first.
func firstReleases(ops []*Op) map[uint64]*Op {
	first := map[uint64]*Op{}
	for _, o := range ops {
		if o.Kind == Release && o.Outcome != NotExecuted && first[o.Token] == nil {
			first[o.Token] = o
		}
	}
	return first
}
