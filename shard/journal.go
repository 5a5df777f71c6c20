package shard

import "ticketing/lease"

// journal is what a shard keeps when its decisions are to be replicated: the
// records of what it decided, and the grants that are not known to be committed.
// A shard without one is a single node's, and pays a comparison for it.
//
// The lease of a grant starts when the grant commits. Until then the entry has
// no deadline and no timer, so that nothing ends a hold which no other node
// knows of: its deadline is the grant's number, beyond every instant.
type journal struct {
	records []byte   // since TakeRecords
	grants  uint64   // recorded in all; a grant's number is this when it was recorded
	started uint64   // grants numbered up to this are confirmed or abandoned
	pending []uint32 // from head on: the entries of the others, in order; 0 where the hold has ended
	head    int
}

// unconfirmed is the first deadline that is none: 146 years after the start.
const unconfirmed lease.Instant = 1 << 62

// keptPending and keptRecords are how many unconfirmed grants, and bytes of
// records, a burst may leave memory for.
const (
	keptPending = 1 << 16
	keptRecords = 1 << 20
)

// Records returns the records of what was decided since the last ClearRecords or
// TakeRecords, in order. They stay as they are until the next command.
func (s *Shard) Records() []byte { return s.journal.records }

// ClearRecords forgets the records; the caller has copied them.
func (s *Shard) ClearRecords() { s.TakeRecords(s.journal.records) }

// TakeRecords hands the records over and goes on in the memory of next, whose
// content is of no interest.
func (s *Shard) TakeRecords(next []byte) []byte {
	records := s.journal.records
	if cap(next) > keptRecords {
		next = nil
	}
	s.journal.records = next[:0]
	return records
}

// Grants returns how many grants were recorded in all. Their numbers are 1 to
// this, in order.
func (s *Shard) Grants() uint64 { return s.journal.grants }

// Confirm says at now that the grants numbered up to upTo are committed: the
// leases of those that still hold start now. What is confirmed stays confirmed;
// to confirm what was not granted yet is a defect of the caller and panics.
func (s *Shard) Confirm(now lease.Instant, upTo uint64) {
	if now >= s.wheel.Next() {
		s.fire(now)
	}
	j := s.journal
	for ; j.started < upTo; j.started++ {
		i := j.pending[j.head]
		j.head++
		if i == 0 {
			continue
		}
		e := s.entries.At(i)
		e.deadline = now.Add(lease.Seconds(e.leaseSeconds))
		if e.waiters != 0 {
			s.arm(i, e)
		}
	}
	j.compact()
}

// Load makes a token the holder of a key that is free here, as the replicated
// state has it: with its whole lease from now, without a record, and whatever
// the admission of keys says (§7: recovery has capacity of its own). A key that
// is held already is a defect of the caller and panics.
func (s *Shard) Load(now lease.Instant, key []byte, hash, token uint64, leaseSeconds uint8) {
	fragment := fragmentOf(hash)
	t, pos, i, _ := s.find(fragment, key)
	if i != 0 {
		panic("shard: a key is loaded twice")
	}
	s.budgets.Keys.TakeAnyway()
	s.counters.Loaded++
	if s.index.count == 0 {
		s.sweepFrom, s.sweepAt = 0, now.Add(sweepEvery)
	}
	i, e := s.entries.take()
	e.fragment = fragment
	s.keys.setKey(e, key)
	e.hold(now, token, leaseSeconds)
	s.index.insert(t, pos, uint64(fragment)<<32|uint64(i))
}

// Abandon forgets every key, waiter, event and record, because they are another
// node's to decide now, and gives the budgets back what the shard had taken. The
// counters and the numbers of grants go on.
func (s *Shard) Abandon(now lease.Instant) {
	keys, waiters := s.Keys(), s.Waiters()
	c, j := s.counters, *s.journal
	*s = *New(Config{MaxWaiters: int(s.maxWaiters), Budgets: s.budgets, Loops: len(s.sessions), Journal: true}, now)
	s.sweepOne = s.sweepEntry
	s.counters = c
	s.counters.Abandoned += uint64(keys)
	s.counters.Left += uint64(waiters)
	s.journal.grants, s.journal.started = j.grants, j.grants
	s.budgets.Keys.Give(keys)
	s.budgets.Waiters.Give(waiters)
}

// recordGrant records that an entry has a new holder, whose lease is not to
// start before Confirm.
func (s *Shard) recordGrant(i uint32, e *entry) {
	j := s.journal
	j.grants++
	j.pending = append(j.pending, i)
	e.deadline = unconfirmed + lease.Instant(j.grants)
	j.records = AppendRecord(j.records, &Record{Kind: RecordGrant, Token: e.token, Lease: e.leaseSeconds, Key: s.keys.keyOf(e)})
}

// recordEnd records that the hold of an entry has ended, by release or expiry.
func (s *Shard) recordEnd(kind byte, e *entry) {
	j := s.journal
	if e.deadline >= unconfirmed {
		number := uint64(e.deadline - unconfirmed)
		j.pending[j.head+int(number-j.started-1)] = 0
	}
	j.records = AppendRecord(j.records, &Record{Kind: kind, Token: e.token, Key: s.keys.keyOf(e)})
}

// compact gives back the room of the grants that are confirmed.
func (j *journal) compact() {
	switch left := len(j.pending) - j.head; {
	case left == 0:
		if cap(j.pending) > keptPending {
			j.pending = nil
		}
		j.pending, j.head = j.pending[:0], 0
	case j.head >= 1024 && j.head >= left:
		copy(j.pending, j.pending[j.head:])
		j.pending, j.head = j.pending[:left], 0
	}
}
