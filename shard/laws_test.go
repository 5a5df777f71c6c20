package shard

import (
	"cmp"
	"slices"

	"ticketing/internal/slab"
	"ticketing/lease"
)

// earliest returns the n-th deadline of a waiter or a lease, modulo their
// number; Never if there is none.
func (m *model) earliest(n int) lease.Instant {
	var ends []lease.Instant
	for _, k := range m.keys {
		ends = append(ends, k.ends)
		for _, w := range k.queue {
			ends = append(ends, w.ends)
		}
	}
	if len(ends) == 0 {
		return lease.Never
	}
	slices.Sort(ends)
	return ends[n%len(ends)]
}

// compare holds what a shard says of itself against the model.
func (m *model) compare(now lease.Instant, s *Shard) {
	m.Helper()
	c := s.Counters()
	m.same("granted", c.Granted, m.granted)
	m.same("timed out", c.TimedOut, m.timedOut)
	m.same("left", c.Left, m.left)
	m.same("parked", c.Parked, m.parked)
	m.same("busy queue", c.BusyQueue, m.busy[BusyQueue])
	m.same("busy waiters", c.BusyWaiters, m.busy[BusyWaiters])
	m.same("busy keys", c.BusyKeys, m.busy[BusyKeys])
	m.same("busy tokens", c.BusyTokens, m.busy[BusyTokens])
	m.same("released", c.Released, m.released)
	m.same("not held", c.NotHeld, m.notHeld)
	m.same("handovers", c.Handovers, m.handovers)

	outcomes := c.Granted + c.TimedOut + c.Left + c.BusyQueue + c.BusyWaiters + c.BusyKeys + c.BusyTokens
	m.same("attempts with an outcome or waiting", outcomes+uint64(s.Waiters()), uint64(m.attempts))
	m.same("grants that ended or last", c.Released+c.Expiries+c.Abandoned+uint64(s.Keys()), c.Granted+c.Loaded)
	m.same("loaded", c.Loaded, m.loaded)
	m.same("abandoned", c.Abandoned, m.abandoned)
	m.same("waits measured", c.WaitNanos.Count(), c.Granted)
	m.same("sum of waits", c.WaitNanos.SumNanos, m.waitNanos)
	m.same("holds measured", c.HoldNanos.Count(), c.Released+c.Expiries)

	m.same("waiters", uint64(s.Waiters()), uint64(m.waiters()))
	held := 0
	next := s.Next()
	for key, k := range m.keys {
		if k.ends > now {
			held++
		}
		if len(k.queue) > m.maxWaiters {
			m.Fatalf("%d waiters on %.4s, limit %d", len(k.queue), key, m.maxWaiters)
		}
		for _, w := range k.queue {
			if next-lease.Instant(tick) >= min(w.ends, k.ends) {
				m.Fatalf("Next is %d ns after the end of a wait or lease on %.4s", next-min(w.ends, k.ends), key)
			}
		}
	}
	if s.Keys() < held {
		m.Fatalf("%d entries for %d held keys", s.Keys(), held)
	}
	if (next == lease.Never) != (s.Keys() == 0) {
		m.Fatalf("Next is %d with %d entries", next, s.Keys())
	}

	b := s.budgets
	m.same("budget of keys", uint64(b.Keys.Used()), uint64(s.Keys()))
	m.same("budget of waiters", uint64(b.Waiters.Used()), uint64(s.Waiters()))
	if b.Keys.Used() > m.maxKeys || b.Waiters.Used() > m.maxTotal {
		m.Fatalf("over the limit: %d of %d keys, %d of %d waiters", b.Keys.Used(), m.maxKeys, b.Waiters.Used(), m.maxTotal)
	}
	if b.Keys.Open() == m.keysClosed || b.Waiters.Open() == m.waitersClosed {
		m.Fatalf("open: keys %v, waiters %v; want %v and %v", b.Keys.Open(), b.Waiters.Open(), !m.keysClosed, !m.waitersClosed)
	}
	m.queues(s)
}

// queues holds Longest against the model.
func (m *model) queues(s *Shard) {
	m.Helper()
	want := []Queue{}
	for key, k := range m.keys {
		if len(k.queue) > 0 {
			want = append(want, Queue{key, len(k.queue)})
		}
	}
	slices.SortFunc(want, func(a, b Queue) int {
		return cmp.Or(b.Waiters-a.Waiters, cmp.Compare(a.Key, b.Key))
	})
	want = want[:min(3, len(want))]
	if got := s.Longest(3); !slices.Equal(got, want) {
		m.Fatalf("longest queues %v, want %v", got, want)
	}
}

// finish looks at the sums that are exact only when every end is noticed.
func (m *model) finish(s *Shard) {
	m.Helper()
	for _, k := range m.keys {
		m.fullNanos += uint64(lease.Seconds(k.lease))
	}
	m.same("sum of holds", s.Counters().HoldNanos.SumNanos, m.releasedNanos+m.fullNanos)
}

func (m *model) same(what string, got, want uint64) {
	m.Helper()
	if got != want {
		m.Fatalf("%s: %d, want %d", what, got, want)
	}
}

// checkState looks whether everything in a shard is reachable from both sides
// and nothing else is there.
func checkState(f failer, s *Shard) {
	f.Helper()
	checkIndex(f, &s.index)
	entries, aside, waiters, timers := 0, 0, 0, 0
	s.entries.Live(0, 1<<30, func(i uint32) {
		e := s.entries.At(i)
		if i == s.entries.aside {
			if e.token != 0 || e.timer != 0 {
				f.Fatalf("entry %d kept aside: %+v", i, *e)
			}
			aside = 1
			return
		}
		entries++
		_, pos := s.index.locate(e.fragment, i)
		key := s.keys.keyOf(e)
		if _, at, found, _ := s.find(e.fragment, key); found != i || at != pos {
			f.Fatalf("entry %d of key %.4s: found %d", i, key, found)
		}
		if e.token == 0 || e.leaseSeconds == 0 || (e.timer != 0) != (e.waiters != 0 && e.deadline < unconfirmed) {
			f.Fatalf("entry %d: %+v", i, *e)
		}
		if e.timer != 0 {
			timers++
		}
		n, prev := uint16(0), uint32(0)
		for j := e.head; j != 0; j = s.waiters.At(j).next {
			w := s.waiters.At(j)
			if w.entry != i || w.prev != prev || w.timer == 0 {
				f.Fatalf("waiter %d of entry %d behind %d: %+v", j, i, prev, *w)
			}
			n, prev = n+1, j
		}
		if n != e.waiters || e.tail != prev {
			f.Fatalf("entry %d: %+v, queue of %d up to %d", i, *e, n, prev)
		}
		waiters += int(n)
	})
	inSessions := 0
	for loop, firsts := range s.sessions {
		for slot, first := range firsts {
			prev := uint32(0)
			for j := first; j != 0; j = s.waiters.At(j).sessNext {
				w := s.waiters.At(j)
				if int(w.session.Loop) != loop || int(w.session.Slot) != slot || w.sessPrev != prev {
					f.Fatalf("waiter %d of session %d/%d behind %d: %+v", j, loop, slot, prev, *w)
				}
				prev = j
				inSessions++
			}
		}
	}
	if entries != s.Keys() || entries+aside != s.entries.Len() {
		f.Fatalf("%d entries, %d in use, %d in the index", entries, s.entries.Len(), s.Keys())
	}
	if waiters != s.Waiters() || waiters != inSessions || waiters+timers != s.wheel.Len() {
		f.Fatalf("%d waiters in queues, %d in sessions, %d in use, %d leases with a timer, %d timers",
			waiters, inSessions, s.Waiters(), timers, s.wheel.Len())
	}
}

// checkEmpty looks whether an emptied shard is back at its starting memory.
func checkEmpty(f failer, s *Shard) {
	f.Helper()
	fresh := New(Config{MaxWaiters: 1, Budgets: s.budgets, Loops: 1}, start)
	most := slab.ChunkItems - 1
	if s.entries.Cap() > most || s.waiters.Cap() > most || s.keys.middle.Cap() > most || s.keys.long.Cap() > most {
		f.Fatalf("emptied: memory for %d entries, %d waiters, %d and %d keys",
			s.entries.Cap(), s.waiters.Cap(), s.keys.middle.Cap(), s.keys.long.Cap())
	}
	if s.keys.middle.Len() != 0 || s.keys.long.Len() != 0 {
		f.Fatalf("emptied: %d and %d keys are left", s.keys.middle.Len(), s.keys.long.Len())
	}
	if s.wheel.Len() != 0 || s.wheel.Cap() != fresh.wheel.Cap() {
		f.Fatalf("emptied: %d timers, memory for %d", s.wheel.Len(), s.wheel.Cap())
	}
	if s.index.moving() || len(s.index.main.segments) != len(fresh.index.main.segments) {
		f.Fatalf("emptied: %d segments, moving %v", len(s.index.main.segments), s.index.moving())
	}
	if cap(s.events) > 2*keptEvents || cap(s.arena) > 256*keptEvents {
		f.Fatalf("emptied: memory for %d events, %d B of keys", cap(s.events), cap(s.arena))
	}
	if j := s.journal; j != nil && (j.started != j.grants || len(j.pending) != 0 || cap(j.pending) > 2*keptPending) {
		f.Fatalf("emptied: %d of %d grants confirmed, memory for %d", j.started, j.grants, cap(j.pending))
	}
	if next := s.Next(); next != lease.Never {
		f.Fatalf("emptied: Next is %d", next)
	}
}
