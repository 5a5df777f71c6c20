package loop

import (
	"golang.org/x/sys/unix"
)

// A release whose shard is on another loop takes a place in the lane of 512
// (§7). When the lane is full its session is blocked: the release and everything
// behind it stay unparsed, in order, until places come back (§4.3).

// block puts s on the list of those who wait for the lane. It returns true when
// a place came free meanwhile: then it was taken, and s is not blocked.
func (l *loop) block(s *session) (taken bool) {
	// Announce first, then try again: whoever gives places back looks at the
	// announcement afterwards, so one of the two sees the other.
	l.stalled.Store(true)
	l.srv.stalledLoops.Store(true)
	if l.srv.budgets.Releases.TryTake() {
		return true
	}
	if !s.blocked {
		s.blocked = true
		l.clearDeadline(s)
		l.blocked = append(l.blocked, s)
	}
	return false
}

// unblock takes s off that list.
func (l *loop) unblock(s *session) {
	if !s.blocked {
		return
	}
	s.blocked = false
	l.resumeReading(s)
	for i, o := range l.blocked {
		if o == s {
			l.blocked[i] = nil
			return
		}
	}
}

// wakeStalled tells the loops with blocked sessions that the lane has room. The
// usual case, nobody waits, is one load.
func (srv *Server) wakeStalled() {
	if !srv.stalledLoops.Load() {
		return
	}
	srv.stalledLoops.Store(false)
	for _, l := range srv.loops {
		if l.stalled.Load() {
			l.attention.wake()
		}
	}
}

// resumeBlocked lets the blocked sessions go on, first come first served, until
// the lane is full again.
func (l *loop) resumeBlocked() {
	waiting := l.blocked
	l.blocked = nil
	l.stalled.Store(false)
	for i, s := range waiting {
		if s == nil {
			continue
		}
		if l.srv.budgets.Releases.Used() >= l.srv.budgets.Releases.Limit() {
			// Those left keep their turn, ahead of those that were blocked again.
			l.blocked = append(waiting[i:len(waiting):len(waiting)], l.blocked...)
			l.stalled.Store(true)
			l.srv.stalledLoops.Store(true)
			if l.srv.budgets.Releases.Used() < l.srv.budgets.Releases.Limit() {
				l.attention.wake()
			}
			return
		}
		s.blocked = false
		l.resumeReading(s)
		l.resume(s)
	}
}

// resume parses what s had to leave unparsed.
func (l *loop) resume(s *session) {
	if s.tail != nil {
		t := s.tail
		n := l.consume(s, t.input)
		t.input = t.input[n:]
		if !s.blocked && len(t.input) > 0 {
			l.fail(s, reasonBadRequest, EndBadRequest) // the FIN came inside a frame
		}
		l.markDirty(s)
		return
	}
	l.handleInput(s)
}

// holdBack is what becomes of input while s is blocked: it gathers in gnet's
// buffer, and beyond a bound the socket is not read any more.
func (l *loop) holdBack(s *session) {
	n := s.conn.InboundBuffered()
	if n > maxBacklog {
		l.close(s, EndBacklog)
		return
	}
	if n >= pauseBacklog && l.epoll >= 0 {
		// gnet's own writes re-arm reading, so this may have to be said again.
		s.paused = true
		l.modEpoll(s, 0)
	}
}

func (l *loop) resumeReading(s *session) {
	if s.paused && !s.closed {
		events := uint32(unix.EPOLLIN | unix.EPOLLPRI)
		if s.conn.OutboundBuffered() > 0 {
			events |= unix.EPOLLOUT
		}
		l.modEpoll(s, events)
	}
	s.paused = false
}

func (l *loop) modEpoll(s *session, events uint32) {
	fd := s.conn.Fd()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Fd: int32(fd), Events: events})
}
