package shard

import "iter"

// Turn is what one loop's turn decided, for the log: the records of its shard,
// in order. Each is submitted once.
type Turn struct {
	Loop  int
	Seq   uint64 // rises by one with each turn submitted by that loop, over the life of the process
	Epoch uint64 // of the lead it was decided under
	// Records belong to the one they were submitted to until the turn is
	// confirmed; then the loop uses the memory again. May be empty.
	Records []byte
	// Read: an answer of this turn shows state without a record of its own (N, T),
	// so the turn must not be confirmed before it is proved that, at a moment after
	// it was submitted, this node still led.
	Read bool
}

// LeadState is the replicated state that a node starts to lead with.
type LeadState struct {
	Counter uint64         // the last token issued
	Keys    iter.Seq[Held] // every held key
}

// Held is a held key of the replicated state.
type Held struct {
	Key   string
	Token uint64
	Lease uint8 // seconds
}

// Deposed says what is known of the turns of a lead that has ended.
type Deposed struct {
	// Proposed is, by loop, the highest Seq that was ever proposed: whether those
	// turns will be carried out is not known, unless they were confirmed. Turns
	// beyond it will certainly not be.
	Proposed []uint64
	Leader   string // client address of the new leader; empty while it is not known
}
