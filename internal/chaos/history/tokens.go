package history

import (
	"cmp"
	"slices"
)

// Tokens checks protocol §5: a token is issued once, is at least 1, and is
// greater than that of every grant that was answered before this one was asked
// for, whatever their keys.
func Tokens(ops []Op) (all []Violation) {
	const check = "tokens"
	grants := grantsByToken(ops)
	for i, o := range grants {
		switch {
		case o.Token == 0:
			all = append(all, found(check, []*Op{o}, "token 0 was issued"))
		case i > 0 && grants[i-1].Token == o.Token:
			all = append(all, found(check, []*Op{grants[i-1], o}, "token %d was issued twice", o.Token))
		}
	}

	calls := slices.Clone(grants)
	slices.SortStableFunc(calls, byCall)
	returns := slices.Clone(grants)
	slices.SortStableFunc(returns, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	var top *Op // the greatest token answered so far
	for _, o := range calls {
		for len(returns) > 0 && returns[0].Return < o.Call {
			if top == nil || returns[0].Token > top.Token {
				top = returns[0]
			}
			returns = returns[1:]
		}
		if top != nil && o.Token < top.Token {
			all = append(all, found(check, []*Op{top, o}, "token %d was issued after token %d had been answered", o.Token, top.Token))
		}
	}
	return all
}
