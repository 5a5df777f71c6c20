package loop

import (
	"github.com/valyala/bytebufferpool"

	"ticketing/codec"
)

// room returns the batch that takes the next reply of s and counts the reply.
func (l *loop) room(s *session) *bytebufferpool.ByteBuffer {
	if s.replies >= replyBatch {
		l.flush(s)
	}
	if s.out == nil {
		s.out = bytebufferpool.Get()
	}
	s.replies++
	l.markDirty(s)
	return s.out
}

func (l *loop) replyGranted(s *session, token, owner uint64, key []byte) {
	b := l.room(s)
	b.B = codec.AppendGranted(b.B, token, owner, key)
}

func (l *loop) replyTimeout(s *session, owner uint64, key []byte) {
	b := l.room(s)
	b.B = codec.AppendTimeout(b.B, owner, key)
}

func (l *loop) replyBusy(s *session, owner uint64, key []byte) {
	b := l.room(s)
	b.B = codec.AppendBusy(b.B, owner, key)
}

func (l *loop) replyReleased(s *session, token uint64, key []byte) {
	b := l.room(s)
	b.B = codec.AppendReleased(b.B, token, key)
}

func (l *loop) replyNotHeld(s *session, token uint64, key []byte) {
	b := l.room(s)
	b.B = codec.AppendNotHeld(b.B, token, key)
}

// markDirty has s looked at when the turn ends.
func (l *loop) markDirty(s *session) {
	if !s.dirty {
		s.dirty = true
		l.dirty = append(l.dirty, s)
	}
}

// flushDirty writes what gathered in this turn, one write a session. Replies of
// a session that still waits for another loop are held, so that they go out
// together with the answers to come.
func (l *loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ { // a failed write may add to the list
		s := l.dirty[i]
		s.dirty = false
		if s.abroad > 0 && s.replies < replyBatch {
			continue
		}
		if s.phase == failing {
			l.continueFailing(s)
			continue
		}
		l.flush(s)
		if s.tail != nil {
			l.continueTail(s)
		}
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

// flush writes the batch of s. The write may fail, and then OnClose has run when
// it returns.
func (l *loop) flush(s *session) {
	b := s.out
	if b == nil {
		return
	}
	if s.tail != nil {
		s.tail.pending = append(s.tail.pending, b.B...)
		s.out, s.replies = nil, 0
		bytebufferpool.Put(b)
		return
	}
	s.out, s.replies = nil, 0
	if !s.closed {
		if _, err := s.conn.Write(b.B); err == nil && !s.closed {
			if s.conn.OutboundBuffered() > 0 {
				l.trackUnsent(s, b.B)
			} else if s.unsent != nil {
				s.unsent = nil
			}
		}
	}
	bytebufferpool.Put(b)
}

// unsent knows which replies a slow client has not been sent: gnet counts the
// bytes it still holds, this the ends of the replies among them.
type unsent struct {
	total uint64   // bytes given to gnet since this was made
	ends  []uint64 // where each unsent reply ends, on the same scale
	bytes []byte   // the unsent bytes: what a half-closed client must still get
}

// trackUnsent takes note of a batch that gnet could not send whole and closes a
// client that leaves more than 256 replies unsent (§7).
func (l *loop) trackUnsent(s *session, batch []byte) {
	u := s.unsent
	if u == nil {
		u = &unsent{}
		s.unsent = u
	}
	var r codec.Reply
	for off := 0; off < len(batch); {
		n, err := codec.ParseReply(batch[off:], &r)
		if err != nil || n == 0 { // a challenge, which is no reply
			break
		}
		off += n
		u.ends = append(u.ends, u.total+uint64(off))
	}
	u.total += uint64(len(batch))
	u.bytes = append(u.bytes, batch...)
	left := s.conn.OutboundBuffered()
	sent := u.total - uint64(left)
	i := 0
	for i < len(u.ends) && u.ends[i] <= sent {
		i++
	}
	u.ends = append(u.ends[:0], u.ends[i:]...)
	u.bytes = append(u.bytes[:0], u.bytes[len(u.bytes)-left:]...)
	if len(u.ends) > unsentReplies {
		l.close(s, EndSlowReader)
	}
}
