package lease

import "fmt"

// check panics if next is not what the slots say: a later one makes a lease
// outlive its deadline, an earlier one wakes the loop for nothing.
func (w *Wheel) check() {
	have := w.next
	if w.recompute(); w.next != have {
		panic(fmt.Sprintf("lease: next is %d, want %d", have, w.next))
	}
	if (w.Len() == 0) != (w.next == Never) {
		panic(fmt.Sprintf("lease: next is %d with %d timers", w.next, w.Len()))
	}
}
