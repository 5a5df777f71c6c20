package loop

import "ticketing/codec"

// unsent knows which replies a slow client has not been sent. gnet counts the
// bytes it still holds and does not show them; this keeps a copy, from the start
// of the first reply that has not left whole.
type unsent struct {
	bytes []byte
	sent  int   // of bytes: what has left of the first reply
	ends  []int // in bytes: where each reply ends
}

// trackUnsent takes note of a batch that gnet could not send whole and closes a
// client that leaves more than 256 replies unsent (§7).
func (l *loop) trackUnsent(s *session, batch []byte) {
	if s.unsent == nil {
		s.unsent = &unsent{}
	}
	u := s.unsent
	u.add(batch)
	u.settle(s.conn.OutboundBuffered())
	if len(u.ends) > unsentReplies {
		l.close(s, EndSlowReader)
	}
}

// add appends a batch of whole replies.
func (u *unsent) add(batch []byte) {
	start := len(u.bytes)
	u.bytes = append(u.bytes, batch...)
	var r codec.Reply
	for off := 0; off < len(batch); {
		n, err := codec.ParseReply(batch[off:], &r)
		if err != nil || n == 0 { // a challenge, which is no reply
			break
		}
		off += n
		u.ends = append(u.ends, start+off)
	}
}

// settle drops the replies that have left, when the last left bytes have not.
func (u *unsent) settle(left int) {
	u.sent = len(u.bytes) - left
	i, gone := 0, 0
	for i < len(u.ends) && u.ends[i] <= u.sent {
		gone = u.ends[i]
		i++
	}
	u.bytes = append(u.bytes[:0], u.bytes[gone:]...)
	u.ends = append(u.ends[:0], u.ends[i:]...)
	for j := range u.ends {
		u.ends[j] -= gone
	}
	u.sent -= gone
}
