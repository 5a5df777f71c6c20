package shard

import (
	"time"

	"ticketing/lease"
)

// The sweep returns the memory of keys whose lease ended with nobody waiting
// and nobody asking since.
const (
	sweepEvery = 5 * time.Second  // from the end of a pass to the next (§7)
	sweepPause = time.Millisecond // between the pieces of a pass
	sweepPiece = 4096             // entries looked at in a piece: some 60 µs
	sweepFrees = 512              // entries freed in a piece, about: some 100 µs
	sweepStep  = sweepPiece / 16  // entries looked at between two looks at sweepFrees
)

// Advance does what is due at now: timeouts, hand-overs after expiry, and a
// piece of the sweep.
func (s *Shard) Advance(now lease.Instant) {
	if now >= s.wheel.Next() {
		s.fire(now)
	}
	if s.index.count != 0 && now >= s.sweepAt {
		s.sweep(now)
	}
}

// Next returns the instant at which Advance has work; lease.Never when nothing
// is held or waiting. The end of a wait, or of a lease with a queue, is less
// than a tick of the wheel (0.26 ms) before it.
func (s *Shard) Next() lease.Instant {
	if s.index.count == 0 {
		return lease.Never
	}
	return min(s.sweepAt, s.wheel.Next())
}

// fire lets every timer go off that is due.
func (s *Shard) fire(now lease.Instant) {
	gone := 0
	for {
		value, ok := s.wheel.Expire(now)
		if !ok {
			break
		}
		i := value >> 1
		if value&1 == timerOfLease {
			s.fireLease(now, i, s.entries.At(i))
		} else {
			w := s.waiters.At(i)
			w.timer = 0
			s.timeOut(i, w, s.entries.At(w.entry))
			gone++
		}
	}
	if gone != 0 {
		s.budgets.Waiters.Give(gone)
	}
}

// fireLease ends the hold of an entry whose lease has ended; if it has not, the
// timer was a former holder's.
func (s *Shard) fireLease(now lease.Instant, i uint32, e *entry) {
	e.timer = 0
	if now < e.deadline {
		s.arm(i, e)
		return
	}
	s.expire(now, i, e)
}

// sweep does a piece of a pass over all entries.
func (s *Shard) sweep(now lease.Instant) {
	s.sweepNow = now
	keep := s.index.count - sweepFrees
	for seen := 0; seen < sweepPiece; seen += sweepStep {
		s.sweepFrom = s.entries.Live(s.sweepFrom, sweepStep, s.sweepOne)
		if s.sweepFrom == 0 {
			s.sweepAt = now.Add(sweepEvery)
			return
		}
		if s.index.count <= keep {
			break
		}
	}
	s.sweepAt = now.Add(sweepPause)
}

// sweepEntry frees an entry if its lease has ended and nobody waits, and it is
// not the one kept aside.
func (s *Shard) sweepEntry(i uint32) {
	if e := s.entries.At(i); e.token != 0 && e.waiters == 0 && s.sweepNow >= e.deadline {
		s.expire(s.sweepNow, i, e)
	}
}
