package shard

import (
	"fmt"

	"ticketing/internal/slab"
	"ticketing/lease"
)

// maxQueue is the hard cap of Config.MaxWaiters (§7).
const maxQueue = 16384

// Config is what a shard is made with.
type Config struct {
	MaxWaiters int      // waiters a key's queue holds (§7), 1..16384
	Budgets    *Budgets // shared by all shards of the server
	Loops      int      // home loops there are; Session.Loop is below it
	Journal    bool     // decisions are replicated: record them, and start leases with Confirm
}

// Shard is one shard. It belongs to one goroutine.
type Shard struct {
	wheel      *lease.Wheel // a timer a waiter, and one a lease with a queue
	index      index
	entries    entries
	budgets    *Budgets
	maxWaiters uint16

	keys     blocks
	waiters  slab.Slab[waiter]
	sessions [][]uint32 // by loop and slot: the first waiter of the session; 0 if it has none

	sweepAt   lease.Instant // when the next piece of the sweep is due, while there is a key
	sweepNow  lease.Instant // of the piece that runs
	sweepFrom uint32        // where the next piece starts; 0 begins a pass
	sweepOne  func(i uint32)

	events   []Event
	arena    []byte // keys of events
	counters Counters
	journal  *journal // nil on a single node
}

// New returns an empty shard. A Config out of its bounds is a defect of the
// caller and panics.
func New(cfg Config, now lease.Instant) *Shard {
	if cfg.MaxWaiters < 1 || cfg.MaxWaiters > maxQueue || cfg.Loops < 1 || cfg.Budgets == nil {
		panic(fmt.Sprintf("shard: bad config: %+v", cfg))
	}
	s := &Shard{
		wheel:      lease.NewWheel(now),
		budgets:    cfg.Budgets,
		maxWaiters: uint16(cfg.MaxWaiters),
		sessions:   make([][]uint32, cfg.Loops),
	}
	s.index.init()
	if cfg.Journal {
		s.journal = &journal{}
	}
	s.sweepOne = s.sweepEntry
	return s
}

// Counters returns the shard's counters, live; read them on its goroutine.
func (s *Shard) Counters() *Counters { return &s.counters }

// Keys returns how many keys have an entry.
func (s *Shard) Keys() int { return s.index.count }

// Waiters returns how many attempts are parked.
func (s *Shard) Waiters() int { return s.waiters.Len() }

// Fetch reads where a search for the key of that hash starts, so that it is near
// when the search comes. What it returns means nothing.
func (s *Shard) Fetch(hash uint64) uint64 {
	fragment := fragmentOf(hash)
	t := s.index.tableOf(fragment)
	return t.at(t.home(fragment))
}

// find returns the index and entry of a key, or 0 and nil, and the slot that is
// its or would be. All are valid until the index changes.
func (s *Shard) find(fragment uint32, key []byte) (t *table, pos, i uint32, e *entry) {
	t = s.index.tableOf(fragment)
	for pos = t.home(fragment); ; pos = (pos + 1) & t.mask {
		slot := t.at(pos)
		if slot == 0 {
			return t, pos, 0, nil
		}
		if uint32(slot>>32) == fragment {
			e = s.entries.At(uint32(slot))
			if string(s.keys.keyOf(e)) == string(key) {
				return t, pos, uint32(slot), e
			}
		}
	}
}
