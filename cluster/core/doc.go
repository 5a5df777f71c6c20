// Package core drives the consensus of one node: raft.RawNode, the replicated
// state that its log leads to, and the queue of what the leader's loops decided
// and nobody has agreed to yet.
//
// It is a pure machine. Messages, ticks and turns go in; Ready says what there
// is to send, to write and to tell the server. It never reads a clock, starts
// no goroutine, takes no lock, logs nothing but what raft hands to its Logger,
// and does no I/O. One goroutine calls it: package cluster's, or a simulation.
//
// One pass of the caller:
//
//	Tick, Step, Submit ...      what has come in
//	r, err := Ready()           all turns submitted have become one entry
//	send r.Messages             they need not wait for the disk
//	tell r.Notices to the server
//	write r.Snapshot, r.HardState, r.Entries; one fsync if r.MustSync
//	send Persisted()            votes and acknowledgements: they vouch for the disk
//
// An error of Ready or Step that is not ErrIgnored is final: the node must stop.
//
// The roles of a node, and what its server is told on the way:
//
//	          ┌──────────────────────── Follower ◀───────────────┐
//	elected   │                   (notice Follow at each         │
//	          ▼                    change of the leader)         │
//	       Elected ──────────────── lost the lead ──────────────▶┤
//	 (executes nothing: its                                      │
//	  state may still lack what                                  │
//	  earlier leaders confirmed)                                 │
//	          │ an entry of its own term is applied:             │
//	          │ notice Lead                                      │
//	          ▼              lost the lead: notice Depose        │
//	       Leading ─────────────────────────────────────────────▶┤
//	        │   ▲                                                │
//	        │   │ all it ever proposed is applied: Lead again    │
//	        ▼   │                                                │
//	       Deposed ──────────────── lost the lead ──────────────▶┘
//	 (raft dropped a proposal, or an entry
//	  did not fit the state: notice Depose,
//	  though raft still has it as leader)
//
// Turns are confirmed in the order they were submitted, loop by loop. A turn
// with records is confirmed when the entry that carries them is applied. A turn
// that only reveals state (shard.Turn.Read) is confirmed when a majority has said,
// after the turn, that this node still leads: by an entry of the same pass or a
// later one, or else by a read index of raft. Nothing is ever proposed twice.
//
// What bounds the queues: a turn is made of requests in flight, of which the
// loops admit 4096 acquires and 512 releases (§7), and of expiries, of which
// there are no more than keys held, 65536. So what is submitted and not
// confirmed is below 16 MiB of records; see limits.go for what raft is allowed.
//
// Where to read on: turns.go is the queue, pass.go is Ready and Persisted,
// apply.go is what an entry does, lead.go is how roles change.
package core
