package history

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a contradiction, with the calls that show it.
type Violation struct {
	Check  string // the checker
	What   string // one sentence
	Window []Op   // in order of calls: as few as show it
}

// String is the sentence, and a line for each call.
func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Check, v.What)
	for i := range v.Window {
		fmt.Fprintf(&b, "    %v\n", &v.Window[i])
	}
	return b.String()
}

func found(check string, window []*Op, format string, args ...any) Violation {
	v := Violation{Check: check, What: fmt.Sprintf(format, args...)}
	for _, o := range window {
		v.Window = append(v.Window, *o)
	}
	slices.SortStableFunc(v.Window, func(a, b Op) int { return byCall(&a, &b) })
	return v
}

// Check runs the checkers that need nothing but the calls.
func Check(ops []Op) []Violation {
	b := NewBounds(ops)
	return slices.Concat(Tokens(ops), Answers(ops), Intervals(ops, b), Keys(ops, b))
}
