// Package lease owns time as the server counts it: the [Instant], and the
// [Wheel] that says which deadlines have passed.
//
// It never reads a clock: time is an argument of every call that needs it, read
// once a turn by the loop and handed down. It starts no goroutine and takes no
// lock; a wheel belongs to one goroutine. It does not know what a deadline is
// for: a timer carries a number, and who set it knows what it stands for.
//
// A shard (package shard) keeps one wheel for the wait of each waiter and for
// the lease of each holder that somebody waits behind; the loop sleeps until
// [Wheel.Next].
//
// # How the wheel turns
//
// A timer stands in the slot of its tick on level 0 if that is near, else in
// the slot of a group of ticks:
//
//	level 0   1024 slots of one tick (2^18 ns, 0.26 ms)      the next 0.27 s
//	level 1   1024 slots of 1024 ticks (0.27 s)              the next 275 s
//	level 2     64 slots of 1024 × 1024 ticks (275 s)        the next 4.9 h
//
// When the first tick of a group comes, the group's timers move to the levels
// below. No wait and no lease is longer than 255 s (§2), so a timer moves once, as
// a rule, and the timers that move together are those of 0.27 s. What lies
// beyond 4.9 hours waits in the last slot of level 2 and is looked at again.
//
// A bit for each slot that holds a timer finds the next one in a few steps, so
// a wheel that was left alone for an hour is brought up to date at the cost of
// its timers, not of the hour.
package lease
