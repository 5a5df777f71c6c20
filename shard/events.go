package shard

// Event is the outcome of an attempt that was parked before: Granted, TimedOut
// or, once tokens have run out (§5), BusyTokens.
type Event struct {
	Owner   uint64
	Token   uint64 // 0 unless granted
	Session Session
	keyAt   uint32 // where the key starts in the shard's arena
	keyLen  uint8
	Kind    Outcome
}

// Events returns what happened to parked attempts since ClearEvents, in order;
// tokens rise along it. The slice is the shard's and valid until its next
// command.
func (s *Shard) Events() []Event { return s.events }

// EventKey returns the key of an event of Events. The bytes are the shard's
// and valid until ClearEvents.
func (s *Shard) EventKey(e *Event) []byte {
	return s.arena[e.keyAt : e.keyAt+uint32(e.keyLen)]
}

// ClearEvents forgets the events; the caller has handled them.
func (s *Shard) ClearEvents() {
	s.events = s.events[:0]
	s.arena = s.arena[:0]
}
