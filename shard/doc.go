// Package shard is the pure heart of the server: which token holds which key,
// who waits for it, and when either ends.
//
// A shard owns the keys that hash to it: their leases, their queues and the
// timers of both. Commands come in with the instant they happen at (Acquire,
// Release, Leave, Advance), and what they decide for others than the caller
// goes out as events. A shard never reads a clock, starts no goroutine, takes
// no lock, logs nothing and knows no socket and no frame. It belongs to one
// goroutine; only the Budgets are shared between shards, by atomics. Package
// loop calls it, one shard a loop.
//
// The life of a key (§3, §4, §10). There is an entry exactly while a token
// holds the key, or held it and nobody has noticed yet that its lease ended:
//
//	        ┌────────────────────── FREE ◀─────────────────────┐
//	Acquire │                        ▲                         │ hold ends, and every
//	        ▼         hold ends      │                         │ waiter's wait has too
//	   HELD, NO QUEUE ───────────────┘                         │
//	    (no timer)  ◀────────────────────────────────── HELD, QUEUE ──┐
//	        │         the last waiter is granted,       (timers: each │ hold ends: the first live
//	        │         times out or leaves                wait, lease) │ waiter is granted, more wait
//	        └────────────────────────────────────────────▶  ▲  ▲ ◀────┘
//	          Acquire with wait ≥ 1: parked              └──┘ Acquire with wait ≥ 1: parked
//
// A hold ends by Release with its token, or by expiry: its lease's deadline is
// reached. With a queue a timer notices the expiry, without one the next
// command on the key does, or the sweep.
//
// Timers may fire a tick late, so each command compares deadlines with its own
// instant: a lease whose deadline is not after now has ended, and a waiter
// whose deadline is not after now gets TimedOut, never the key. A waiter counts
// against the limits of §7 until its outcome is out.
//
// In a cluster a shard keeps a journal of what it decides (journal.go), and a
// lease starts when its grant is confirmed: until then nothing but a release
// ends the hold.
//
// Where to read on: acquire.go and release.go are the two commands that
// matter, queue.go parks, hands over and removes waiters, table.go finds
// entries by key, sweep.go is what time alone does.
package shard
