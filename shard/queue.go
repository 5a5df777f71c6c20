package shard

import (
	"fmt"

	"ticketing/lease"
)

// waiter is a parked attempt. It is on two lists: its key's queue, and the
// waiters of its session. 56 bytes.
type waiter struct {
	owner              uint64
	session            Session
	deadline           lease.Instant // when its wait ends
	entry              uint32        // the key it waits for
	next, prev         uint32        // neighbours in the queue; 0 at its ends
	sessNext, sessPrev uint32        // neighbours in the list of its session; 0 at its ends
	timer              lease.Timer   // for deadline
	waitSeconds        uint8         // with deadline, when it was parked
	leaseSeconds       uint8         // of the lease it will get
}

// What a timer's value says: the index of an entry or a waiter, and in the
// lowest bit which of the two.
const (
	timerOfWaiter = 0
	timerOfLease  = 1
)

// park puts an attempt at the end of the queue of a held key.
func (s *Shard) park(now lease.Instant, a *Attempt, i uint32, e *entry) {
	j := s.waiters.Alloc()
	w := s.waiters.At(j)
	w.owner = a.Owner
	w.session = a.Session
	w.waitSeconds = a.WaitSeconds
	w.leaseSeconds = a.LeaseSeconds
	w.deadline = now.Add(lease.Seconds(a.WaitSeconds))
	w.timer = s.wheel.Add(w.deadline, j<<1|timerOfWaiter)
	w.entry = i
	w.prev = e.tail
	if e.tail == 0 {
		e.head = j
		s.arm(i, e)
	} else {
		s.waiters.At(e.tail).next = j
	}
	e.tail = j
	e.waiters++
	s.joinSession(j, w)
}

// removeWaiter takes a waiter out of its queue and its session's list. What
// becomes of it is already said, and the caller gives it back to the budget.
func (s *Shard) removeWaiter(j uint32, w *waiter, e *entry) {
	if w.timer != 0 {
		s.wheel.Cancel(w.timer)
	}
	if w.prev == 0 {
		e.head = w.next
	} else {
		s.waiters.At(w.prev).next = w.next
	}
	if w.next == 0 {
		e.tail = w.prev
	} else {
		s.waiters.At(w.next).prev = w.prev
	}
	e.waiters--
	if e.waiters == 0 {
		s.disarm(e)
	}
	s.leaveSession(w)
	s.waiters.Free(j)
}

// timeOut ends a waiter whose wait has ended, and removes it.
func (s *Shard) timeOut(j uint32, w *waiter, e *entry) {
	s.counters.TimedOut++
	s.emit(TimedOut, w, e, 0)
	s.removeWaiter(j, w, e)
}

// arm sets the timer of the holder's lease; there is a queue for it. When the
// holder changes, the timer is left alone unless it would be late now: when it
// goes off before the lease ends, it is set again. So a busy queue, whose leases
// seldom come near their end, is handed on without touching the wheel for it.
//
// A lease that has not started yet (journal.go) gets its timer when it does.
func (s *Shard) arm(i uint32, e *entry) {
	if e.deadline >= unconfirmed {
		return
	}
	e.timer = s.wheel.Add(e.deadline, i<<1|timerOfLease)
}

// disarm stops the timer of the holder's lease, if it is set.
func (s *Shard) disarm(e *entry) {
	if e.timer != 0 {
		s.wheel.Cancel(e.timer)
		e.timer = 0
	}
}

// Leave removes all waiters of a session that ended (§3.7), in time of their
// number, without events for them and without effect on the order of others.
// What was granted to the session stays granted.
func (s *Shard) Leave(now lease.Instant, who Session) {
	if now >= s.wheel.Next() {
		s.fire(now)
	}
	firsts := s.sessions[who.Loop]
	if int(who.Slot) >= len(firsts) {
		return
	}
	gone := 0
	for ; firsts[who.Slot] != 0; gone++ {
		j := firsts[who.Slot]
		w := s.waiters.At(j)
		mustBeOf(w, who)
		s.removeWaiter(j, w, s.entries.At(w.entry))
	}
	if gone != 0 {
		s.counters.Left += uint64(gone)
		s.budgets.Waiters.Give(gone)
	}
}

// joinSession puts a waiter at the front of its session's list. The order of
// that list means nothing.
func (s *Shard) joinSession(j uint32, w *waiter) {
	firsts := &s.sessions[w.session.Loop]
	for int(w.session.Slot) >= len(*firsts) {
		*firsts = append(*firsts, 0)
	}
	first := &(*firsts)[w.session.Slot]
	w.sessNext = *first
	if w.sessNext != 0 {
		second := s.waiters.At(w.sessNext)
		mustBeOf(second, w.session)
		second.sessPrev = j
	}
	*first = j
}

func (s *Shard) leaveSession(w *waiter) {
	if w.sessPrev == 0 {
		s.sessions[w.session.Loop][w.session.Slot] = w.sessNext
	} else {
		s.waiters.At(w.sessPrev).sessNext = w.sessNext
	}
	if w.sessNext != 0 {
		s.waiters.At(w.sessNext).sessPrev = w.sessPrev
	}
}

// mustBeOf checks in debug builds that the list of a slot has no waiter of the
// slot's former user: its Leave comes before anything of the next one.
func mustBeOf(w *waiter, who Session) {
	if debug && w.session != who {
		panic(fmt.Sprintf("shard: a waiter of %+v among those of %+v", w.session, who))
	}
}
