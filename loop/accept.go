package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/lease"
)

// listen binds addr. Options that every client's socket needs are set on the
// listening one: Linux hands them down, and accepting costs no call for them.
// There is no SO_REUSEPORT, so a second server on the address fails to start;
// SO_REUSEADDR, which Go sets, lets one start right after another was killed.
func listen(addr string) (*net.TCPListener, error) {
	lc := net.ListenConfig{
		KeepAlive: -1, // set below
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			ctrlErr := raw.Control(func(fd uintptr) { err = setOptions(int(fd)) })
			return errors.Join(err, ctrlErr)
		},
	}
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_ADDR %s: %w", addr, err)
	}
	if err := deepen(ln.(*net.TCPListener)); err != nil {
		ln.Close()
		return nil, fmt.Errorf("LISTEN_ADDR %s: %w", addr, err)
	}
	return ln.(*net.TCPListener), nil
}

// deepen makes the queue of connections that are not yet accepted as long as the
// kernel allows. Go reads that from /proc/sys, and makes it 128 where a sandbox
// hides the file.
func deepen(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	ctrlErr := raw.Control(func(fd uintptr) { err = os.NewSyscallError("listen", unix.Listen(int(fd), listenBacklog)) })
	return errors.Join(err, ctrlErr)
}

func setOptions(fd int) error {
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer},
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepAlive.Seconds())},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepAlive.Seconds())},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveCount},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds())},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// accept takes connections until the listener is closed. No error of accept(2)
// ends it: out of descriptors or memory, it waits a little and tries again.
func (srv *Server) accept() error {
	pause := acceptRetryMin
	shortage := throttle{every: logInterval}
	dropped := throttle{every: logInterval}
	full := throttle{every: logInterval}
	for {
		c, err := srv.ln.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				if srv.draining.Load() {
					return nil
				}
				return err
			}
			srv.failed.Add(1)
			if n, ok := shortage.allow(); ok {
				srv.log.Error("cannot accept; trying again", "error", err, "times", n)
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptRetryMax)
			continue
		}
		if srv.live.Load() >= int64(srv.cfg.MaxConnections) {
			srv.refused.Add(1)
			if n, ok := full.allow(); ok {
				srv.log.Warn("connection refused: MAX_CONNECTIONS are there", "limit", srv.cfg.MaxConnections,
					"client", c.RemoteAddr().String(), "times", n)
			}
			c.Close()
			continue
		}
		if err := srv.admit(c); err != nil {
			srv.failed.Add(1)
			if n, ok := dropped.allow(); ok {
				srv.log.Error("connection dropped: cannot take it in", "client", c.RemoteAddr().String(), "error", err, "times", n)
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptRetryMax)
			continue
		}
		pause = acceptRetryMin
	}
}

// admit counts c in and gives it to a loop, or to its TLS handshake first. It
// closes c when that fails.
func (srv *Server) admit(c *net.TCPConn) error {
	srv.cfg.Processors.Enter()
	defer srv.cfg.Processors.Leave()
	accepted := srv.clock()
	srv.live.Add(1)
	if cfg := srv.tls.Load(); cfg != nil {
		srv.shake(c, cfg, accepted)
	} else if err := srv.enrol(c, nil, accepted); err != nil {
		srv.live.Add(-1)
		return err
	}
	srv.accepted.Add(1)
	srv.stirMemory(1)
	return nil
}

// place returns the loop with the fewest connections, with one more placed there.
func (srv *Server) place() *loop {
	srv.placing.Lock()
	defer srv.placing.Unlock()
	l := srv.loops[0]
	for _, o := range srv.loops[1:] {
		if o.placed.Load() < l.placed.Load() {
			l = o
		}
	}
	l.placed.Add(1)
	return l
}

// enrol gives c, after its TLS handshake if t is not nil, to a loop and waits
// until it is there. It closes c when that fails.
func (srv *Server) enrol(c *net.TCPConn, t *sealed, accepted lease.Instant) error {
	s := &session{accepted: accepted, phase: open, sealed: t}
	if srv.secrets.Load() != nil {
		nonce, err := auth.NewNonce(rand.Reader)
		if err != nil {
			c.Close()
			return err
		}
		s.phase, s.nonce = handshaking, nonce
	}
	l := srv.place()
	s.loop = l
	if t != nil {
		t.pipe.loop = l
	}
	ch, err := l.engine.Enroll(gnet.NewContext(context.Background(), s), c)
	if err == nil {
		r := <-ch
		err = r.Err
		if err == nil && !s.opened {
			err = errors.New("the event loop could not poll it")
		}
	} else {
		c.Close()
	}
	if err != nil {
		l.placed.Add(-1)
	}
	return err
}

// throttle lets a repeated event through once per interval. It is for one goroutine.
type throttle struct {
	every time.Duration
	last  time.Time
	count int
}

// allow reports whether to act now, and on how many events since the last time.
func (t *throttle) allow() (int, bool) {
	t.count++
	if now := time.Now(); t.last.IsZero() || now.Sub(t.last) >= t.every {
		n := t.count
		t.last, t.count = now, 0
		return n, true
	}
	return 0, false
}
