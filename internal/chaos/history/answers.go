package history

import "time"

// Answers checks what answers say by themselves: a wait does not end early
// (protocol §3.6), a token releases its key once (§4.1), only the key it was
// issued for, and not before it was issued.
func Answers(ops []Op) (all []Violation) {
	const check = "answers"
	grants := map[uint64]*Op{}
	for i := range ops {
		if o := &ops[i]; o.Outcome == Granted {
			grants[o.Token] = o
		}
	}
	released := map[uint64]*Op{}
	for i := range ops {
		o := &ops[i]
		switch {
		case o.Outcome == TimedOut && o.Return.Sub(o.Call) < o.wait():
			all = append(all, found(check, []*Op{o}, "a wait of %v ended after %v", o.wait(), o.Return.Sub(o.Call)))
		case o.Outcome == Released:
			g := grants[o.Token]
			if g != nil && (g.Key != o.Key || o.Return < g.Call) {
				all = append(all, found(check, []*Op{g, o}, "token %d released what it cannot have held", o.Token))
			}
			if first := released[o.Token]; first != nil {
				all = append(all, found(check, []*Op{first, o}, "token %d released %q twice", o.Token, o.Key))
			}
			released[o.Token] = o
		}
	}
	return all
}

// Patience checks that every call ended: an acquire within its wait (5 s for a
// wait of 0), a release within its 5 s, both with what the client's rules add
// for a verdict under way, and with the slack given for a busy machine.
func Patience(ops []Op, slack time.Duration) (all []Violation) {
	const (
		unanswered = 5 * time.Second         // client §2.4, §3.1
		settlement = 1250 * time.Millisecond // client §2.7
	)
	for i := range ops {
		o := &ops[i]
		limit := unanswered
		if o.Kind == Acquire && o.Wait > 0 {
			limit = o.wait()
		}
		if took := o.Return.Sub(o.Call); took > limit+settlement+slack {
			all = append(all, found("patience", []*Op{o}, "a call took %v, and %v was the most it may take", took, limit+settlement))
		}
	}
	return all
}
