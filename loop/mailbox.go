package loop

import (
	"sync/atomic"

	"ticketing/shard"
)

// kind says what a message asks or answers.
type kind uint8

const (
	none kind = iota // consumed: nothing is to be done with it

	// Asked of a shard by a session's loop. Answered in place.
	askAcquire
	askRelease

	// Told to a shard. Not answered.
	tellLeave    // the session has ended: its waiters go (§3.7)
	tellGiveBack // a grant whose session ended before its reply left: release it
	tellGivenUp  // a loop has given up its shard, because the lead was lost

	// Told to a session's loop: in a batch on its way home the answer to an ask,
	// otherwise the end of a wait.
	granted
	timedOut
	busy
	parked // no reply yet
	released
	notHeld
	undone // the lead was lost: certainly not done, no reply
	lost   // the lead was lost: perhaps done, no reply
)

// message is one operation on its way to a foreign shard, its answer on the way
// back, or the end of a wait. The key lies in the batch's arena.
type message struct {
	session shard.Session
	id      uint64 // acquire: owner; release: token
	token   uint64 // granted: the token
	hash    uint64
	key     uint32 // offset in the arena
	keyLen  uint8
	kind    kind
	wait    uint8 // seconds
	lease   uint8 // seconds
}

// batch is what one loop sends another at one time. Asks are answered in place
// and the batch goes home, where its memory is used again: steady state
// allocates nothing.
type batch struct {
	next     *batch // in a stack or a free list
	home     *loop
	to       *loop // withheld: for whom its messages are
	answers  bool  // on its way home with answers
	tells    bool  // has ends of waits, which are for sessions and not for the shard
	msgs     []message
	arena    []byte // the keys
	acquires int    // asks of either kind: what their budgets get back at home
	releases int
}

// keyOf returns the key of m. It lives as long as the batch.
func (b *batch) keyOf(m *message) []byte { return b.arena[m.key : m.key+uint32(m.keyLen)] }

// add appends m with its key.
func (b *batch) add(m message, key []byte) {
	m.key, m.keyLen = uint32(len(b.arena)), uint8(len(key))
	b.arena = append(b.arena, key...)
	b.msgs = append(b.msgs, m)
}

// tell appends m, the end of a wait.
func (b *batch) tell(m message, key []byte) {
	b.tells = true
	b.add(m, key)
}

// reset empties b for its next use.
func (b *batch) reset() {
	b.answers, b.tells, b.acquires, b.releases = false, false, 0, 0
	b.msgs, b.arena = b.msgs[:0], b.arena[:0]
}

// maxKeptMessages is the largest batch that is kept for later use; one burst
// must not hold its memory for ever.
const maxKeptMessages = 4096

// stack hands batches from any goroutine to one. Pushing tells whether it was
// empty, so that only the first of many pushers pays for a wake.
type stack struct{ head atomic.Pointer[batch] }

// push puts b on the stack and reports whether the stack was empty.
func (s *stack) push(b *batch) (first bool) {
	for {
		old := s.head.Load()
		b.next = old
		if s.head.CompareAndSwap(old, b) {
			return old == nil
		}
	}
}

// takeAll returns all batches, the one pushed first at the head of the list.
func (s *stack) takeAll() *batch {
	if s.head.Load() == nil {
		return nil
	}
	var list *batch
	for b := s.head.Swap(nil); b != nil; {
		next := b.next
		b.next = list
		list, b = b, next
	}
	return list
}

func (s *stack) empty() bool { return s.head.Load() == nil }

// mailbox is where a loop receives. asked holds what needs its attention and is
// followed by a wake; emptied holds its own batches that came back with nothing
// to say and waits until the loop needs one.
type mailbox struct {
	asked   stack
	_       [56]byte // keep the two off one cache line
	emptied stack
}

// outboxFor returns the batch that gathers messages for the loop dst.
func (l *loop) outboxFor(dst int) *batch {
	if b := l.outboxes[dst]; b != nil {
		return b
	}
	b := l.newBatch()
	l.outboxes[dst] = b
	l.outgoing = append(l.outgoing, dst)
	return b
}

// newBatch returns an empty batch of ours.
func (l *loop) newBatch() *batch {
	b := l.spare
	if b == nil {
		l.spare = l.mail.emptied.takeAll()
		b = l.spare
	}
	if b == nil {
		b = &batch{home: l}
	} else {
		l.spare = b.next
		b.next = nil
	}
	return b
}

// recycle keeps b, which is ours and empty of news, for later use.
func (l *loop) recycle(b *batch) {
	if cap(b.msgs) > maxKeptMessages {
		return
	}
	b.reset()
	b.next = l.spare
	l.spare = b
}

// giveBack returns b, which asked for nothing, to its home, without a wake.
func (b *batch) giveBack() {
	if cap(b.msgs) > maxKeptMessages {
		return
	}
	b.reset()
	b.home.mail.emptied.push(b)
}

// sendOutboxes posts what this turn gathered for other loops.
func (l *loop) sendOutboxes() {
	for _, dst := range l.outgoing {
		if b := l.outboxes[dst]; b != nil { // else it was our own, and is decided
			l.outboxes[dst] = nil
			l.srv.loops[dst].post(b)
		}
	}
	l.outgoing = l.outgoing[:0]
}

// post hands b to the loop l and wakes it if nothing else was waiting there.
func (l *loop) post(b *batch) {
	if l.mail.asked.push(b) {
		l.attention.wake()
	}
}

// receive takes what other loops have sent: news for our sessions, asks for our
// shard, and our own batches with their answers.
//
// The clock is read again for them: they may have been sent after this turn
// began, and a wait or a lease that starts before it was asked for ends early.
func (l *loop) receive() {
	if l.mail.asked.empty() {
		return
	}
	l.own() // before the mail is taken: what visitors do comes after all of it
	b := l.mail.asked.takeAll()
	l.now = l.srv.clock()
	for b != nil {
		next := b.next
		b.next = nil
		if b.answers {
			l.handleAnswers(b)
		} else {
			l.handleAsks(b)
		}
		b = next
	}
}
