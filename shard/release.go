package shard

import "ticketing/lease"

// Release carries out §4: true if the token held the key and its lease had not
// ended (R), else false (N), and then nothing has changed but what time alone
// would have. The first waiter is granted in the same step.
func (s *Shard) Release(now lease.Instant, key []byte, hash, token uint64) bool {
	if now >= s.wheel.Next() {
		s.fire(now)
	}
	t, pos, i, e := s.find(fragmentOf(hash), key)
	if i == 0 {
		s.counters.NotHeld++
		return false
	}
	if now >= e.deadline {
		s.expire(now, i, e)
		s.counters.NotHeld++
		return false
	}
	if e.token != token {
		s.counters.NotHeld++
		return false
	}
	s.counters.Released++
	s.counters.HoldNanos.observe(int64(now.Sub(e.deadline) + lease.Seconds(e.leaseSeconds)))
	if s.journal != nil {
		s.recordEnd(RecordRelease, e)
	}
	if e.waiters == 0 {
		s.free(t, pos, i, e)
	} else {
		s.handOver(now, i, e)
	}
	return true
}

// expire ends the hold of an entry whose lease has ended. It reports whether a
// waiter holds the key now; else the entry is gone.
func (s *Shard) expire(now lease.Instant, i uint32, e *entry) bool {
	s.counters.Expiries++
	s.counters.HoldNanos.observe(int64(lease.Seconds(e.leaseSeconds)))
	if s.journal != nil {
		s.recordEnd(RecordExpire, e)
	}
	return s.handOver(now, i, e)
}

// handOver gives the key, whose hold has ended, to the first waiter whose wait
// has not. It reports whether there was one; else the entry is gone.
func (s *Shard) handOver(now lease.Instant, i uint32, e *entry) bool {
	gone, held := 0, false
	for e.head != 0 && !held {
		first := e.head
		w := s.waiters.At(first)
		if now >= w.deadline {
			s.timeOut(first, w, e)
		} else if token, ok := s.budgets.Tokens.Next(); ok {
			s.grantWaiter(now, token, w, i, e)
			s.removeWaiter(first, w, e)
			held = true
		} else { // fail closed (§5): nobody can have the key any more
			s.counters.BusyTokens++
			s.emit(BusyTokens, w, e, 0)
			s.removeWaiter(first, w, e)
		}
		gone++
	}
	if gone != 0 {
		s.budgets.Waiters.Give(gone)
	}
	if !held {
		t, pos := s.index.locate(e.fragment, i)
		s.free(t, pos, i, e)
	}
	return held
}

// grantWaiter makes the first waiter of a key its holder.
func (s *Shard) grantWaiter(now lease.Instant, token uint64, w *waiter, i uint32, e *entry) {
	s.counters.Granted++
	s.counters.Handovers++
	s.counters.WaitNanos.observe(int64(now.Sub(w.deadline) + lease.Seconds(w.waitSeconds)))
	former := e.deadline
	e.hold(now, token, w.leaseSeconds)
	if s.journal != nil {
		s.disarm(e)
		s.recordGrant(i, e)
	} else if e.timer == 0 || e.deadline < former {
		s.disarm(e)
		s.arm(i, e)
	}
	s.emit(Granted, w, e, token)
}

// free forgets an entry that nobody holds or waits for; pos of t is its slot.
func (s *Shard) free(t *table, pos, i uint32, e *entry) {
	s.index.remove(t, pos)
	s.keys.dropKey(e)
	s.entries.put(i, e)
	s.budgets.Keys.Give(1)
}
