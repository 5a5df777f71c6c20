package loop

import (
	"golang.org/x/sys/unix"

	"ticketing/codec"
	"ticketing/lease"
)

// unsent knows which replies a slow client has not been sent. gnet counts the
// bytes it still holds and does not show them; this keeps a copy, from the start
// of the first reply that has not left whole.
//
// With TLS what is sent are records. Nothing of a reply has arrived before the
// whole of its record has, so its end is that of the record, and the replies
// themselves are kept beside the records.
type unsent struct {
	bytes []byte
	sent  int   // of bytes: what has left of the first reply
	ends  []int // in bytes: where each reply ends

	until lease.Instant // there are too many: when patience ends; 0: there are not
	look  lease.Instant // and when to look again

	clear     []byte // TLS: the replies in the records
	clearEnds []int  // TLS: in clear, where each reply ends
}

// trackUnsent takes note of a batch, as it is on the way, that gnet could not
// send whole. With more than 256 replies unsent the client is closed (§7), unless
// it reads: thousands of waits may end in one instant, and no client reads as fast
// as that. So it is looked at again a little later, and closed if none of them has
// left since, or if there are still too many when patience ends.
func (l *loop) trackUnsent(s *session, replies, wire []byte) {
	if s.unsent == nil {
		s.unsent = &unsent{}
	}
	u := s.unsent
	u.track(s, replies, wire)
	if u.until != 0 {
		return
	}
	u.settle(s.conn.OutboundBuffered())
	if len(u.ends) > unsentReplies {
		u.until = l.now.Add(unsentPatience)
		l.lookAgain(s)
	}
}

func (l *loop) lookAgain(s *session) {
	s.unsent.look = l.now.Add(unsentLook)
	l.deadlines.Add(s.unsent.look, s.id.Slot|ofUnsent)
}

// judgeUnsent looks again at a client with too many replies unsent. The deadline
// may be that of a former session of the slot, or of replies that are sent by now.
func (l *loop) judgeUnsent(s *session) {
	u := s.unsent
	if u == nil || u.until == 0 || l.now < u.look || s.closed {
		return
	}
	gone := u.settle(s.conn.OutboundBuffered())
	switch {
	case len(u.ends) <= unsentReplies:
		u.until = 0
	case gone == 0 && !writable(s.conn.Fd()) || l.now >= u.until:
		l.close(s, EndSlowReader)
	default:
		l.lookAgain(s)
	}
}

// writable says that the kernel would take more: what it had was read, and only
// this loop was late to see it.
func writable(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1 && poll[0].Revents&unix.POLLOUT != 0
}

// track appends a batch of whole replies of s, which on the way are the bytes wire.
func (u *unsent) track(s *session, replies, wire []byte) {
	if s.sealed != nil {
		u.addRecord(replies, wire)
	} else {
		u.add(replies)
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

// addRecord appends a record with its replies. One without any, that answers a
// client's new key, counts as a reply: a client must not gather those either.
func (u *unsent) addRecord(replies, record []byte) {
	u.bytes = append(u.bytes, record...)
	var r codec.Reply
	for one := true; one || len(replies) > 0; one = false {
		n, err := codec.ParseReply(replies, &r)
		if err != nil { // a challenge, which is no reply
			n = 0
		}
		u.clear = append(u.clear, replies[:n]...)
		u.ends, u.clearEnds = append(u.ends, len(u.bytes)), append(u.clearEnds, len(u.clear))
		if replies = replies[n:]; n == 0 {
			return
		}
	}
}

// replies returns the replies that have not left whole, as they were before TLS,
// and how many bytes of the first have left. settle comes before.
func (u *unsent) replies() (replies []byte, sent int) {
	if u.clearEnds != nil {
		return u.clear, 0
	}
	return u.bytes, u.sent
}

// settle drops the replies that have left, when the last left bytes have not, and
// returns their number.
func (u *unsent) settle(left int) (gone int) {
	u.sent = len(u.bytes) - left
	i, start := 0, 0
	for i < len(u.ends) && u.ends[i] <= u.sent {
		start = u.ends[i]
		i++
	}
	if i > 0 && u.clearEnds != nil {
		clear := u.clearEnds[i-1]
		u.clear = append(u.clear[:0], u.clear[clear:]...)
		u.clearEnds = append(u.clearEnds[:0], u.clearEnds[i:]...)
		for j := range u.clearEnds {
			u.clearEnds[j] -= clear
		}
	}
	u.bytes = append(u.bytes[:0], u.bytes[start:]...)
	u.ends = append(u.ends[:0], u.ends[i:]...)
	for j := range u.ends {
		u.ends[j] -= start
	}
	u.sent -= start
	return i
}
