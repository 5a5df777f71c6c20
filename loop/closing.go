package loop

import (
	"github.com/valyala/bytebufferpool"
	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// endOf is the end reason of a session that is told r.
func endOf(r codec.Reason) EndReason {
	switch r {
	case codec.ReasonBadOp:
		return EndBadOp
	case codec.ReasonBadRequest:
		return EndBadRequest
	case codec.ReasonBadLease:
		return EndBadLease
	case codec.ReasonBadKey:
		return EndBadKey
	case codec.ReasonLineTooLong:
		return EndLineTooLong
	case codec.ReasonAuthFailed:
		return EndAuthFailed
	}
	return EndShuttingDown
}

// fail begins the end of s with an E (§6): its waiters go, its input is no longer
// read, and the E goes out behind everything that is decided.
func (l *loop) fail(s *session, r codec.Reason, end EndReason) {
	if s.phase == failing || s.phase == lingering || s.closed && s.tail == nil {
		return
	}
	l.notice(s, end)
	s.phase, s.reason, s.end = failing, r, end
	l.clearDeadline(s)
	l.unblock(s)
	l.leave(s)
	s.until = l.now.Add(closingTime)
	l.setDeadline(s, s.until)
	l.markDirty(s)
}

// continueFailing sends the E once nothing more will be decided for s, waits for
// gnet to have sent it, and shuts the write side.
func (l *loop) continueFailing(s *session) {
	late := l.now >= s.until
	if s.abroad > 0 && !late {
		return
	}
	if s.abroad > 0 && claimsUndone(s.reason) {
		// It would say that nothing unanswered was executed, which a loop that
		// does not answer may yet make untrue (§6).
		l.close(s, s.end)
		return
	}
	if l.holdsNotice(s) {
		switch l.flush(s); {
		case s.tail != nil:
			l.continueTail(s)
		case !s.closed:
			l.setDeadline(s, l.noticeUntil(s))
		}
		return
	}
	l.sayError(s)
	if s.tail == nil { // a tail does that when it has nothing else to say
		l.sayGoodbye(s)
	}
	switch {
	case s.tail != nil:
		l.continueTail(s)
	case s.closed:
	case s.conn.OutboundBuffered() == 0:
		_ = unix.Shutdown(s.conn.Fd(), unix.SHUT_WR)
		s.phase = lingering
		s.until = l.now.Add(lingerTime)
		l.setDeadline(s, s.until)
	case late:
		l.close(s, s.end)
	default:
		l.setDeadline(s, earlier(s.until, l.now.Add(flushPoll)))
	}
}

// sayError sends the E of a failing session behind all it was owed, once.
func (l *loop) sayError(s *session) {
	if s.phase != failing || s.reason == codec.ReasonNone || l.holdsNotice(s) {
		return
	}
	b := l.room(s)
	b.B = l.appendNotice(b.B, s)
	s.reason = codec.ReasonNone
	l.flush(s)
}

// close ends s now, with nothing more sent.
func (l *loop) close(s *session, end EndReason) {
	if s.closed {
		l.bury(s)
		return
	}
	if end != s.end {
		l.notice(s, end)
	}
	s.end = end
	s.phase = lingering // nothing more is to be said
	_ = l.engine.Close(s.conn)
}

// leave takes the waiters of s out of every queue (§3.7).
func (l *loop) leave(s *session) {
	if l.direct >= 0 {
		l.own().Leave(l.now, s.id)
	}
	if !s.waitsAbroad {
		return
	}
	s.waitsAbroad = false
	for dst := range l.outboxes {
		if dst != l.direct {
			l.outboxFor(dst).add(message{kind: tellLeave, session: s.id}, nil)
		}
	}
}

// handleClose is the end of the connection: the client's FIN when eof is true,
// otherwise a broken connection or our own close. The descriptor is still open.
func (l *loop) handleClose(s *session, eof bool) {
	defer l.guard()
	if s.closed {
		return
	}
	if s.sealed != nil && s.sealed.ended {
		eof = true // close_notify came before, and our own close is because of it
	}
	if eof && (s.phase == open || s.phase == handshaking || s.phase == failing) {
		l.handleEOF(s)
		return
	}
	s.closed = true
	if !eof && s.phase != lingering && s.end == EndClient {
		s.end = EndReset
	}
	l.bury(s)
}

// handleEOF is the client's FIN. Its queued attempts go; what is decided or
// being decided for it is still sent, for it may have shut only its write side.
func (l *loop) handleEOF(s *session) {
	cut := s.inFrame() && !s.blocked
	switch {
	case s.phase == handshaking && cut: // a line that will never be 43 characters (§8.3)
		l.fail(s, codec.ReasonAuthFailed, EndAuthFailed)
	case s.phase == open && cut: // the stream ends inside a frame (§1.6)
		l.fail(s, reasonBadRequest, EndBadRequest)
	case s.phase == open:
		l.leave(s)
	}
	if s.abroad == 0 && !s.blocked && s.conn.OutboundBuffered() == 0 && !l.awaitsNotice(s) {
		l.sayError(s)
		l.flush(s)
		l.sayGoodbye(s)
	}
	if s.abroad > 0 || s.blocked || s.conn.OutboundBuffered() > 0 || l.awaitsNotice(s) {
		l.startTail(s)
	} else {
		s.unsent = nil
	}
	s.closed = true
	if s.tail == nil {
		l.bury(s)
	}
}

// bury counts s out, once.
func (l *loop) bury(s *session) {
	if s.gone {
		return
	}
	s.gone = true
	l.clearDeadline(s)
	l.unblock(s)
	l.leave(s)
	l.takeBackReplies(s)
	l.ended[s.end]++
	l.detach(s)
	l.placed.Add(-1)
	l.srv.sessionGone()
}

// takeBackReplies drops the replies of s that have not left: those in its batch,
// those gnet holds, those of its tail. Before gnet's are taken back gnet must be
// kept from sending them after all.
func (l *loop) takeBackReplies(s *session) {
	if b := s.out; b != nil {
		s.out = nil
		l.takeBack(b.B, 0)
		bytebufferpool.Put(b)
	}
	if u := s.unsent; u != nil {
		s.unsent = nil
		if u.settle(s.conn.OutboundBuffered()); l.silence(s) {
			l.takeBack(u.replies())
		}
	}
	if t := s.tail; t != nil {
		s.tail = nil
		l.reserve.giveBack(t.fd)
		t.out.settle(len(t.out.bytes) - t.out.sent)
		l.takeBack(t.out.replies())
	}
}
