package shard

import "ticketing/lease"

// Acquire carries out §3 and returns what became of the attempt at once, and
// the token if it was granted. If it was parked, its outcome is an event of a
// later command.
//
// The order in which limits are looked at: of a new key, the admission of keys,
// then tokens; of a held key, the queue's limit, then the admission of waiters.
// A refused attempt changes nothing.
func (s *Shard) Acquire(now lease.Instant, a *Attempt) (Outcome, uint64) {
	if now >= s.wheel.Next() {
		s.fire(now)
	}
	fragment := fragmentOf(a.Hash)
	t, pos, i, e := s.find(fragment, a.Key)
	if i != 0 {
		if now < e.deadline || s.expire(now, i, e) {
			return s.acquireHeld(now, a, i, e)
		}
		t, pos, _, _ = s.find(fragment, a.Key)
	}
	return s.acquireFree(now, a, t, pos)
}

// acquireFree grants a key that has no entry; pos of t is the slot for it.
func (s *Shard) acquireFree(now lease.Instant, a *Attempt, t *table, pos uint32) (Outcome, uint64) {
	if !s.budgets.Keys.Take() {
		s.counters.BusyKeys++
		return BusyKeys, 0
	}
	token, ok := s.budgets.Tokens.Next()
	if !ok {
		s.budgets.Keys.Give(1)
		s.counters.BusyTokens++
		return BusyTokens, 0
	}
	if s.index.count == 0 {
		s.sweepFrom, s.sweepAt = 0, now.Add(sweepEvery)
	}
	i, e := s.entries.take()
	e.fragment = fragmentOf(a.Hash)
	s.keys.setKey(e, a.Key)
	e.hold(now, token, a.LeaseSeconds)
	s.index.insert(t, pos, uint64(e.fragment)<<32|uint64(i))
	if s.journal != nil {
		s.recordGrant(i, e)
	}
	s.counters.Granted++
	s.counters.WaitNanos.observe(0)
	return Granted, token
}

// acquireHeld parks an attempt on a held key, if it may wait.
func (s *Shard) acquireHeld(now lease.Instant, a *Attempt, i uint32, e *entry) (Outcome, uint64) {
	switch {
	case a.WaitSeconds == 0:
		s.counters.TimedOut++
		return TimedOut, 0
	case e.waiters >= s.maxWaiters:
		s.counters.BusyQueue++
		return BusyQueue, 0
	case !s.budgets.Waiters.Take():
		s.counters.BusyWaiters++
		return BusyWaiters, 0
	}
	s.park(now, a, i, e)
	s.counters.Parked++
	return Parked, 0
}

// hold makes a token the holder from now on.
func (e *entry) hold(now lease.Instant, token uint64, leaseSeconds uint8) {
	e.token = token
	e.leaseSeconds = leaseSeconds
	e.deadline = now.Add(lease.Seconds(leaseSeconds))
}
