package shard

import "math/bits"

// Counters count what a shard did since it was made. They are plain fields of
// the shard's goroutine; copy the struct to publish it.
//
// Every Acquire ends in exactly one of Granted, TimedOut, one of the Busy
// fields and Left; what is not there yet waits. Parked counts the attempts
// that waited, however they ended.
type Counters struct {
	Granted  uint64 // attempts granted, at once or by a hand-over
	TimedOut uint64 // attempts not granted in their wait, wait 0 included
	Left     uint64 // attempts removed because their session ended
	Parked   uint64 // attempts that joined a queue

	BusyQueue   uint64 // attempts refused: the key's queue was full
	BusyWaiters uint64 // attempts refused: the admission of waiters in all was closed
	BusyKeys    uint64 // attempts refused: the admission of keys was closed
	BusyTokens  uint64 // attempts refused: tokens have run out

	Released  uint64 // releases by the token that held
	NotHeld   uint64 // releases by any other
	Handovers uint64 // grants to a waiter (part of Granted)
	Expiries  uint64 // leases that ended without release, counted when noticed
	Loaded    uint64 // holds taken over from the replicated state; not in Granted
	Abandoned uint64 // holds forgotten with a lost lead, neither released nor expired here

	WaitNanos Histogram // grants by the time from Acquire to grant, 0 when at once
	HoldNanos Histogram // ended holds by their length; an expiry counts its full lease
}

// HistogramBuckets is how many buckets a Histogram has.
const HistogramBuckets = 24

// Histogram counts durations by powers of two. Bucket i counts those below
// 2^(16+i) ns that no earlier bucket counts (65.5 µs up to 275 s); the last
// bucket counts the rest.
type Histogram struct {
	Buckets  [HistogramBuckets]uint64
	SumNanos uint64
}

// HistogramBound returns the exclusive upper bound of bucket i in ns; the last
// bucket has none and gets 0.
func HistogramBound(i int) uint64 {
	if i >= HistogramBuckets-1 {
		return 0
	}
	return 1 << (16 + i)
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// observe counts one duration; a negative one counts as 0.
func (h *Histogram) observe(nanos int64) {
	nanos = max(nanos, 0)
	h.Buckets[min(bits.Len64(uint64(nanos)>>16), HistogramBuckets-1)]++
	h.SumNanos += uint64(nanos)
}
