package loop

import (
	"os"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// tail is the rest of a session whose client has sent its FIN while answers for
// it were outstanding. gnet closes its descriptor after a FIN, so the tail has a
// duplicate. It ends when all is written, or after closingTime.
type tail struct {
	fd      int
	pending []byte // to be written
	input   []byte // frames left unparsed behind the release lane
}

// startTail makes s outlive gnet's connection. It runs inside OnClose, while
// the descriptor is open.
func (l *loop) startTail(s *session) {
	fd, err := unix.FcntlInt(uintptr(s.conn.Fd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		l.srv.log.Warn("answers to a half-closed client are lost", "client", s.peer(),
			"error", os.NewSyscallError("dup", err))
		return
	}
	s.tail = &tail{fd: fd}
	if s.blocked {
		if rest, err := s.conn.Peek(-1); err == nil {
			s.tail.input = append([]byte(nil), rest...)
		}
	}
	if u := s.unsent; u != nil && s.conn.OutboundBuffered() > 0 {
		left := s.conn.OutboundBuffered()
		s.tail.pending = append(s.tail.pending, u.bytes[len(u.bytes)-left:]...)
		l.silence(s)
	}
	s.unsent = nil
	s.until = l.now.Add(closingTime)
	l.setDeadline(s, l.now.Add(flushPoll))
	l.markDirty(s)
}

// silence keeps gnet from sending its copy of what the tail sends. gnet tries
// to write its buffer once more when OnClose returns; its descriptor number is
// made to mean /dev/null for that. The epoll registration belongs to the socket,
// which lives on, so it is removed first.
func (l *loop) silence(s *session) {
	fd := s.conn.Fd()
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil || l.epoll < 0 {
		s.tail.pending = s.tail.pending[:0] // gnet's one attempt must do
		if err == nil {
			_ = unix.Close(null)
		}
		return
	}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	_ = unix.Dup3(null, fd, unix.O_CLOEXEC)
	_ = unix.Close(null)
}

// continueTail writes what it can and ends the session when nothing is left to
// come or patience has run out.
func (l *loop) continueTail(s *session) {
	t := s.tail
	if s.gone {
		return
	}
	if s.phase == failing && s.abroad == 0 && s.reason != 0 {
		l.flush(s)
		t.pending = codec.AppendError(t.pending, codec.Reason(s.reason))
		s.reason = 0
	}
	for len(t.pending) > 0 {
		n, err := unix.Write(t.fd, t.pending)
		if n > 0 {
			t.pending = t.pending[n:]
		}
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			t.pending = nil
			s.until = l.now
		}
	}
	done := len(t.pending) == 0 && s.abroad == 0 && !s.blocked && s.out == nil
	if done || l.now >= s.until {
		l.bury(s)
		return
	}
	if s.timer == 0 {
		l.setDeadline(s, earlier(s.until, l.now.Add(flushPoll)))
	}
}
