package loop

import (
	"unsafe"

	"github.com/valyala/bytebufferpool"
	"golang.org/x/sys/unix"

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
// together with the answers to come. In a cluster those may take long: nothing is
// held.
func (l *loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ { // a failed write may add to the list
		s := l.dirty[i]
		s.dirty = false
		if s.abroad > 0 && s.replies < replyBatch && l.replicated == nil {
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
	s.out, s.replies = nil, 0
	wire := b.B
	if s.sealed != nil {
		wire = l.seal(s, b.B)
	}
	l.send(s, b.B, wire)
	bytebufferpool.Put(b)
}

// send writes a batch of replies, which on the way are the bytes wire; they are
// lost when there are none.
func (l *loop) send(s *session, replies, wire []byte) {
	switch {
	case len(wire) == 0, s.closed && s.tail == nil:
		l.takeBack(replies, 0)
	case s.tail != nil:
		s.tail.out.track(s, replies, wire)
	default:
		sent := 0
		if s.unsent == nil && s.sealed == nil {
			if sent = writeNow(s.conn.Fd(), wire); sent == len(wire) {
				return
			}
		}
		n, err := s.conn.Write(wire[sent:])
		switch {
		case err != nil && n == 0:
			l.takeBack(replies, sent)
		case s.closed:
		case s.conn.OutboundBuffered() > 0:
			l.trackUnsent(s, replies, wire)
		default:
			s.unsent = nil
		}
	}
}

// writeNow writes what a socket takes at once and returns how many bytes that
// was. An error is left for gnet to find: it then writes the rest. Unlike gnet's
// write this one is not announced to Go's scheduler, which would give the
// processor away for the microseconds it takes.
func writeNow(fd int, b []byte) int {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

// takeBack is for replies that will never leave, except their first sent bytes.
// Nobody can know the tokens of the grants among them, so those are given back:
// the keys need not stay shut for their leases.
func (l *loop) takeBack(replies []byte, sent int) {
	var r codec.Reply
	for off := 0; off < len(replies); {
		n, err := codec.ParseReply(replies[off:], &r)
		if err != nil || n == 0 { // a challenge, which is no reply
			return
		}
		off += n
		if off > sent && r.Op == codec.OpGranted {
			l.giveBack(r.Text, r.Token)
		}
	}
}
