package loop

import (
	"github.com/panjf2000/gnet/v2"
	"github.com/valyala/bytebufferpool"

	"ticketing/auth"
	"ticketing/codec"
	"ticketing/lease"
	"ticketing/shard"
)

// phase is where a session is in its life; the diagram stands in doc.go.
type phase uint8

const (
	handshaking phase = iota
	open
	failing
	lingering
)

// session is one connection of a client. It belongs to one loop, and only that
// loop's goroutine touches it once OnOpen has run.
//
// At 8000 idle connections its size counts: rare parts hang off pointers.
type session struct {
	loop *loop
	conn gnet.Conn                  // what gnet made of the socket; unusable once closed is set
	out  *bytebufferpool.ByteBuffer // replies not yet written; nil when there are none

	sealed *sealed // TLS; nil without
	unsent *unsent // replies gnet could not send yet; nil when all are sent
	tail   *tail   // what is left after the client's FIN; nil before it

	id       shard.Session        // slot on this loop, and the slot's generation
	accepted lease.Instant        // when accept returned it: the handshake's 10 s run from here
	until    lease.Instant        // failing, lingering, half-closed: when patience ends
	timer    lease.Timer          // the one deadline that is armed; its meaning follows from the phase
	abroad   int32                // operations other loops have not answered; above 0 replies are held
	replies  uint16               // replies in out
	nonce    [auth.NonceSize]byte // handshaking: the challenge that was sent
	thrown   uint32               // lingering: bytes discarded

	phase       phase
	end         EndReason    // why it ends, once that is known
	reason      codec.Reason // failing: what the E will say; none once it is said
	closed      bool         // OnClose has run: conn must not be used any more
	gone        bool         // counted out; the slot is free
	opened      bool         // OnOpen has run
	dirty       bool         // on the loop's dirty list
	blocked     bool         // waits for the release lane; its input is left unparsed
	paused      bool         // blocked, and its socket is not read
	waitsAbroad bool         // has ever asked a loop, in a batch, to wait: that loop must hear of its end
	unserved    bool         // has asked for something that is not answered, because the lead was lost
	lost        bool         // something it asked for may have been done under a lead that was lost (§9)
}

// saidLast reports whether nothing may be said behind what was said: the E is
// out or on its way, or the connection is being closed.
func (s *session) saidLast() bool {
	return s.phase == lingering || s.phase == failing && s.reason == codec.ReasonNone
}

// slot is one entry of a loop's session table. The generation tells a message
// for an earlier session of the same slot from one for this one.
type slot struct {
	session *session
	gen     uint16
}

// attach gives s a slot on l and with it a name that messages can carry.
func (l *loop) attach(s *session) {
	var i uint32
	if n := len(l.freeSlots); n > 0 {
		i = l.freeSlots[n-1]
		l.freeSlots = l.freeSlots[:n-1]
	} else {
		i = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	l.slots[i].gen++
	l.slots[i].session = s
	s.id = shard.Session{Slot: i, Loop: uint16(l.idx), Gen: l.slots[i].gen}
	l.sessions++
}

// detach frees the slot of s. Messages that still name it find nothing.
func (l *loop) detach(s *session) {
	l.slots[s.id.Slot].session = nil
	l.freeSlots = append(l.freeSlots, s.id.Slot)
	l.sessions--
}

// lookup returns the session that id names, or nil when it has ended.
func (l *loop) lookup(id shard.Session) *session {
	sl := &l.slots[id.Slot]
	if sl.gen != id.Gen {
		return nil
	}
	return sl.session
}
