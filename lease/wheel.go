package lease

import "ticketing/internal/slab"

// A Timer names a pending timer of a wheel. 0 is none. The name is free for
// another timer from the moment it is cancelled or handed out by Expire.
type Timer uint32

// A Wheel holds timers and hands out those whose deadlines have passed. It
// allocates nothing while the number of timers stays within what it has been,
// and gives the memory of a burst back.
//
// Deadlines count in ticks of 2^18 ns: a timer is never early, and never late
// by a tick or more if Expire is called at Next.
type Wheel struct {
	next  Instant // the earliest start of a slot with a timer; Never if there is none
	seen  Instant // the latest now of Expire
	done  int64   // no timer of this tick or an earlier one is left, but in the slot due
	nodes slab.Slab[node]
	slots slots
}

// A node is a pending timer. The nodes of a slot are a list, the newest first.
type node struct {
	tick  int64 // the tick in which the deadline has passed
	value uint32
	next  Timer  // in the slot; 0 at the end
	prev  Timer  // in the slot; 0 at the front
	slot  uint16 // none if the timer is not pending
}

// NewWheel returns an empty wheel. The instants of all calls are on the clock of
// now.
func NewWheel(now Instant) *Wheel {
	w := &Wheel{next: Never, seen: now, done: int64(now >> tickShift)}
	w.nodes.Free(w.nodes.Alloc()) // an emptied wheel shall be no larger than a new one
	return w
}

// Add sets a timer that Expire hands out as value once at has passed. If it has
// passed already (it is not after the latest now that Expire was given), the
// next Expire does.
func (w *Wheel) Add(at Instant, value uint32) Timer {
	t := Timer(w.nodes.Alloc())
	n := w.node(t)
	n.value = value
	n.tick = tickOf(at)
	if at <= w.seen {
		w.put(t, n, due)
		w.next = w.now() // a slot's start may be later
	} else {
		w.place(t, n)
	}
	if debug {
		w.check()
	}
	return t
}

// Cancel removes a pending timer. Cancelling 0 does nothing. Cancelling a timer
// that is not pending panics, unless another one has its name by now.
func (w *Wheel) Cancel(t Timer) {
	if t == 0 {
		return
	}
	n := w.node(t)
	if n.slot == none {
		panic("lease: Cancel of a timer that is not pending")
	}
	w.take(t, n)
	if debug {
		w.check()
	}
}

// Next returns the earliest instant at which Expire has work: to hand out a
// timer, or to move timers that come near, which is seldom (see the package
// comment). It is never after the instant at which Expire would hand out a
// timer, lies in the past if there is one to hand out, and is Never if the wheel
// is empty. It costs a load: a caller may ask before each thing it does.
func (w *Wheel) Next() Instant { return w.next }

// Len returns the number of pending timers.
func (w *Wheel) Len() int { return w.nodes.Len() }

// Cap returns the number of timers there is memory for. For an empty wheel it is
// always the same.
func (w *Wheel) Cap() int { return w.nodes.Cap() }

// Expire takes one timer whose deadline's tick is not after now out of the wheel
// and returns its value, or false if there is none: then Next is after now. It
// hands out what was added too late first, then tick by tick; the order within a
// tick is arbitrary. The caller may Add and Cancel between two calls. It gives
// now as the monotonic clock does, never less than before.
func (w *Wheel) Expire(now Instant) (value uint32, ok bool) {
	w.seen = max(w.seen, now)
	for now >= w.next {
		slot := uint16(due)
		if !w.slots.has(due) {
			tick := int64(w.next >> tickShift)
			w.done = tick - 1
			slot = slot0(tick)
			if !w.slots.has(slot) {
				w.cascade(tick)
				continue
			}
		}
		t := w.slots.first[slot]
		n := w.node(t)
		value = n.value
		w.take(t, n)
		if debug {
			w.check()
		}
		return value, true
	}
	w.done = max(w.done, int64(now>>tickShift)) // the nearer, the fewer moves
	return 0, false
}

// cascade moves the timers of the groups that begin with tick to the levels
// below. The caller has advanced done to the tick before.
func (w *Wheel) cascade(tick int64) {
	w.move(slot1(tick))
	if tick&(1<<(2*nearBits)-1) == 0 {
		w.move(slot2(tick))
	}
	w.recompute()
}

// move places the timers of a slot anew.
func (w *Wheel) move(slot uint16) {
	t := w.slots.first[slot]
	if t == 0 {
		return
	}
	w.slots.clear(slot)
	for t != 0 {
		n := w.node(t)
		next := n.next
		w.place(t, n)
		t = next
	}
}

// place puts a timer whose tick is not yet done into the slot it belongs in.
func (w *Wheel) place(t Timer, n *node) {
	slot, start := slotOf(n.tick, w.done)
	w.put(t, n, slot)
	w.next = min(w.next, Instant(start)<<tickShift)
}

// put makes a timer the first of a slot.
func (w *Wheel) put(t Timer, n *node, slot uint16) {
	first := w.slots.first[slot]
	n.slot, n.prev, n.next = slot, 0, first
	if first != 0 {
		w.node(first).prev = t
	}
	w.slots.set(slot, t)
}

// take removes a timer and its node, and lets next follow if it stood for it.
func (w *Wheel) take(t Timer, n *node) {
	if n.next != 0 {
		w.node(n.next).prev = n.prev
	}
	if n.prev != 0 {
		w.node(n.prev).next = n.next
	} else if n.next != 0 {
		w.slots.first[n.slot] = n.next
	} else {
		start := w.slots.start(n.slot, w.done)
		w.slots.clear(n.slot)
		if Instant(start)<<tickShift <= w.next {
			w.recompute()
		}
	}
	n.slot = none
	w.nodes.Free(uint32(t))
}

// recompute finds next again.
func (w *Wheel) recompute() {
	if w.slots.has(due) {
		w.next = w.now()
	} else if tick, ok := w.slots.earliest(w.done); ok {
		w.next = Instant(tick) << tickShift
	} else {
		w.next = Never
	}
}

// now returns an instant that has passed, for what is due.
func (w *Wheel) now() Instant { return Instant(w.done) << tickShift }

func (w *Wheel) node(t Timer) *node { return w.nodes.At(uint32(t)) }
