package loop

import (
	"errors"

	"ticketing/codec"
)

// errIdleRecords ends a session that sends records without data in them and
// nothing else.
var errIdleRecords = errors.New("too many records without data")

// seal encrypts replies into the loop's buffer. It returns nil when nothing may
// follow what was said.
func (l *loop) seal(s *session, replies []byte) []byte {
	l.sealed = l.sealed[:0]
	if s.sealed.mute {
		return nil
	}
	if _, err := s.sealed.conn.Write(replies); err != nil {
		l.breakOff(s, err)
		return nil
	}
	return l.sealed
}

// sayGoodbye ends what the server says with close_notify, which tells the client
// that nothing was cut off. It does nothing without TLS.
func (l *loop) sayGoodbye(s *session) {
	t := s.sealed
	if t == nil || t.mute {
		return
	}
	t.mute = true
	l.sealed = l.sealed[:0]
	if err := t.conn.CloseWrite(); err == nil {
		l.send(s, nil, l.sealed)
	}
}

// breakOff begins the end of a session whose TLS has failed. If there was
// something to say about it, an alert, that was sent; no reply can follow.
func (l *loop) breakOff(s *session, err error) {
	if s.sealed.mute {
		return
	}
	s.sealed.mute = true
	if !s.closed {
		l.srv.brokenTLS.tell(l.srv.log, "connection closed: its TLS is broken", s.conn.RemoteAddr(), "error", err)
	}
	l.fail(s, codec.ReasonNone, EndTLS)
}
