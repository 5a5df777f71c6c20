package shard

import "ticketing/lease"

// Config is what a shard is made with.
type Config struct {
	MaxWaiters int      // live waiters a key's queue holds (§7), 1..16384
	Budgets    *Budgets // shared by all shards of the server
	Loops      int      // home loops there are; Session.Loop is below it
}

// Shard is one shard. It belongs to one goroutine.
type Shard struct {
	maxWaiters int
	budgets    *Budgets
	wheel      *lease.Wheel
	counters   Counters
	events     []Event
	arena      []byte // keys of events
}

// Queue is a key and how many attempts wait for it.
type Queue struct {
	Key     string `json:"key"`
	Waiters int    `json:"waiters"`
}

// New returns an empty shard.
func New(cfg Config, now lease.Instant) *Shard {
	return &Shard{maxWaiters: cfg.MaxWaiters, budgets: cfg.Budgets, wheel: lease.NewWheel(now)}
}

// Acquire carries out §3 and returns what became of the attempt at once, and
// the token if it was granted. When it was parked, its outcome is an event of
// a later command.
func (s *Shard) Acquire(now lease.Instant, a *Attempt) (Outcome, uint64) { return TimedOut, 0 }

// Release carries out §4: true if the token held the key and its lease had not
// ended (R), else false (N).
func (s *Shard) Release(now lease.Instant, key []byte, hash, token uint64) bool { return false }

// Leave removes all waiters of a session that ended (§3.7), without events for
// them. What was granted to it stays granted.
func (s *Shard) Leave(now lease.Instant, who Session) {}

// Advance does what is due at now: timeouts, hand-overs after expiry, and a
// bounded piece of the sweep.
func (s *Shard) Advance(now lease.Instant) {}

// Next returns the instant at which Advance has work; lease.Never when nothing
// is held or waiting.
func (s *Shard) Next() lease.Instant { return s.wheel.Next() }

// Counters returns the shard's counters; read them on its goroutine.
func (s *Shard) Counters() *Counters { return &s.counters }

// Keys returns how many keys have an entry.
func (s *Shard) Keys() int { return 0 }

// Waiters returns how many attempts are parked.
func (s *Shard) Waiters() int { return 0 }

// Longest returns up to n of the longest queues, the longest first.
func (s *Shard) Longest(n int) []Queue { return nil }
