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

// A burst of more events than this gives their memory back when they are
// cleared.
const keptEvents = 4096

// Events returns what happened to parked attempts since ClearEvents, in order;
// tokens rise along it. The slice is the shard's and stays as it is until
// ClearEvents; what later commands add is in the next one.
func (s *Shard) Events() []Event { return s.events }

// EventKey returns the key of an event of Events. The bytes are the shard's and
// stay as they are until ClearEvents.
func (s *Shard) EventKey(e *Event) []byte {
	return s.arena[e.keyAt : e.keyAt+uint32(e.keyLen)]
}

// ClearEvents forgets the events; the caller has handled them.
func (s *Shard) ClearEvents() {
	if len(s.events) > keptEvents {
		s.events, s.arena = nil, nil
	}
	s.events = s.events[:0]
	s.arena = s.arena[:0]
}

// emit appends the outcome of a waiter.
func (s *Shard) emit(kind Outcome, w *waiter, e *entry, token uint64) {
	s.events = append(s.events, Event{
		Owner:   w.owner,
		Token:   token,
		Session: w.session,
		keyAt:   uint32(len(s.arena)),
		keyLen:  e.keyLen,
		Kind:    kind,
	})
	s.arena = append(s.arena, s.keys.keyOf(e)...)
}
