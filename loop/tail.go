package loop

import "golang.org/x/sys/unix"

// tail is the rest of a session whose client has sent its FIN while answers for
// it were outstanding. gnet closes its descriptor after a FIN, so the tail has a
// duplicate. It ends when all is written, or after closingTime.
type tail struct {
	fd    int
	out   unsent // what is still to be written
	input []byte // frames left unparsed behind the release lane
}

// startTail makes s outlive gnet's connection. It runs inside OnClose, while
// the descriptor is open.
func (l *loop) startTail(s *session) {
	u := s.unsent
	s.unsent = nil
	fd, err := l.reserve.dup(s.conn.Fd())
	if err != nil {
		l.srv.log.Warn("answers to a half-closed client are lost", "client", s.conn.RemoteAddr().String(), "error", err)
		return
	}
	s.tail = &tail{fd: fd}
	if u != nil {
		if u.settle(s.conn.OutboundBuffered()); l.silence(s) { // otherwise gnet's one attempt must do
			s.tail.out = *u
		}
	}
	if s.blocked {
		s.tail.input = l.unparsed(s)
	}
	s.until = l.now.Add(closingTime)
	l.setDeadline(s, l.now.Add(flushPoll))
	l.markDirty(s)
}

// unparsed returns a copy of what s has sent and nobody has looked at.
func (l *loop) unparsed(s *session) []byte {
	if s.sealed != nil {
		return l.unsealAll(s)
	}
	rest, err := s.conn.Peek(-1)
	if err != nil {
		return nil
	}
	return append([]byte(nil), rest...)
}

// silence keeps gnet from sending what it holds for s, and reports whether it
// could. It is for inside OnClose: gnet tries to write its buffer once more when
// that returns. Its descriptor number is made to mean what takes no byte until
// then. The epoll registration belongs to the socket, which may live on in a
// duplicate, so it is removed first.
func (l *loop) silence(s *session) bool {
	if l.epoll < 0 {
		return false
	}
	fd := s.conn.Fd()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	return unix.Dup3(l.reserve.null, fd, unix.O_CLOEXEC) == nil
}

// continueTail writes what it can and ends the session when nothing is left to
// come or patience has run out.
func (l *loop) continueTail(s *session) {
	t := s.tail
	if s.gone {
		return
	}
	if s.abroad == 0 {
		l.sayError(s)
	}
	answered := s.abroad == 0 && !s.blocked && s.out == nil && !l.awaitsNotice(s)
	if answered {
		l.sayGoodbye(s)
	}
	for t.out.sent < len(t.out.bytes) {
		n, err := unix.Write(t.fd, t.out.bytes[t.out.sent:])
		if n > 0 {
			t.out.sent += n
		}
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if err != unix.EAGAIN {
				s.until = l.now
			}
			break
		}
	}
	if answered && t.out.sent == len(t.out.bytes) || l.now >= s.until {
		l.bury(s)
		return
	}
	l.setDeadline(s, earlier(s.until, l.now.Add(flushPoll)))
}
