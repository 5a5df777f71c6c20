package loop

import (
	"errors"
	"io"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ticketing/lease"
)

// handler is what gnet calls, each callback on the goroutine of the
// connection's loop.
type handler struct{ srv *Server }

func (handler) OnBoot(gnet.Engine) gnet.Action       { return gnet.None }
func (handler) OnShutdown(gnet.Engine)               {}
func (handler) OnTick() (time.Duration, gnet.Action) { return time.Hour, gnet.None }

// OnOpen takes a session into its loop and, with a secret, speaks first (§8.1).
func (h handler) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	s, ok := c.Context().(*session)
	if !ok {
		return nil, gnet.None
	}
	l := s.loop
	l.begin(s)
	s.conn = c
	l.handleOpen(s)
	l.end()
	return nil, gnet.None
}

// OnTraffic is a turn: bytes of a client, the alarm, or the attention of others.
func (h handler) OnTraffic(c gnet.Conn) gnet.Action {
	switch o := c.Context().(type) {
	case *session:
		l := o.loop
		l.begin(o)
		l.handleInput(o)
		l.end()
	case *control:
		l := o.loop
		l.begin(nil)
		_, _ = c.Discard(c.InboundBuffered())
		if o.timer {
			l.own()
			l.armed = lease.Never
			l.expire()
		} else {
			l.handleAttention()
		}
		l.end()
	}
	return gnet.None
}

// OnClose is called once a connection: after the client's FIN, after a broken
// connection, or from inside our own Close or a failed Write.
func (h handler) OnClose(c gnet.Conn, err error) gnet.Action {
	s, ok := c.Context().(*session)
	if !ok || !s.opened {
		return gnet.None
	}
	l := s.loop
	l.begin(s)
	l.handleClose(s, errors.Is(err, io.EOF))
	l.end()
	return gnet.None
}

// handleAttention does what only a wake asks for.
func (l *loop) handleAttention() {
	defer l.guardShard()
	l.runCommands()
	if len(l.blocked) > 0 && (l.replicated == nil || !l.replicated.deposing) {
		l.resumeBlocked()
	}
}
