package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/codec"
)

// ErrNoSession is in the chain of every error that says: a session with the
// server could not be had, or was not kept.
var ErrNoSession = errors.New("no session")

// dialers is how many connections are made at once.
const dialers = 32

// link is a connection that is ready for requests: a descriptor that does not
// block. It is no *os.File, because Go's runtime would poll that as well, and wake
// a thread of its own for every answer.
type link int

// none is no link.
const none link = -1

func (l link) close() {
	if l != none {
		_ = unix.Close(int(l))
	}
}

// dialAll makes the connections of a run, all to the same address.
func (r *run) dialAll(ctx context.Context) (links []link, err error) {
	links = slices.Repeat([]link{none}, r.cfg.Connections)
	defer func() {
		if err != nil {
			for _, l := range links {
				l.close()
			}
		}
	}()
	if links[0], err = r.dialFirst(ctx); err != nil {
		return links, err
	}
	var work sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := make(chan struct{}, dialers)
	for i := 1; i < len(links); i++ {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			if ctx.Err() != nil {
				return
			}
			var err error
			if links[i], err = r.dial(ctx, r.addr, false); err != nil {
				cancel(fmt.Errorf("%w: connection %d of %d to %s: %w", ErrNoSession, i+1, len(links), r.addr, err))
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return links, context.Cause(ctx)
	}
	return links, nil
}

// dial connects and shakes hands (§8), and if asked to, makes sure that the node
// executes requests.
func (r *run) dial(ctx context.Context, addr string, leads bool) (l link, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, auth.Timeout, fmt.Errorf("no session within %v", auth.Timeout))
	defer cancel()
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return none, plainNetwork(err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	conn := raw
	defer func() {
		if err != nil {
			raw.Close()
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		}
	}()
	if r.cfg.TLS != nil {
		if conn, err = shakeTLS(ctx, raw, r.cfg.TLS, addr); err != nil {
			return none, fmt.Errorf("TLS: %w", err)
		}
	}
	if r.cfg.Secret != nil {
		if err := authenticate(conn, r.cfg.Secret); err != nil {
			return none, err
		}
	}
	if leads {
		if err := probe(conn); err != nil {
			return none, err
		}
	}
	if !stop() {
		return none, context.Cause(ctx)
	}
	if r.cfg.TLS != nil {
		return r.bridge(conn)
	}
	defer raw.Close()
	return duplicate(raw.(*net.TCPConn))
}

// duplicate returns a descriptor of the same connection, which Go's sockets are
// set not to block.
func duplicate(conn *net.TCPConn) (l link, err error) {
	control, err := conn.SyscallConn()
	if err != nil {
		return none, err
	}
	l = none
	failed := control.Control(func(fd uintptr) {
		var dup int
		if dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			l = link(dup)
		}
	})
	return l, errors.Join(failed, os.NewSyscallError("dup", err))
}

// plainNetwork drops what callers name themselves.
func plainNetwork(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
		var call *os.SyscallError
		if errors.As(err, &call) {
			err = call.Err
		}
	}
	return err
}

func shakeTLS(ctx context.Context, raw net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, _ := net.SplitHostPort(addr)
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	conn := tls.Client(raw, cfg)
	return conn, conn.HandshakeContext(ctx)
}

// authenticate reads the challenge, byte by byte so that nothing behind it is
// taken, and answers it.
func authenticate(conn net.Conn, secret []byte) error {
	var line [auth.MaxLine]byte
	n := 0
	for n == 0 || line[n-1] != '\n' {
		if n == len(line) {
			return fmt.Errorf("the first line is no challenge: %q", line[:40])
		}
		if _, err := io.ReadFull(conn, line[n:n+1]); err != nil {
			return fmt.Errorf("waiting for the challenge: %w", err)
		}
		n++
	}
	text := bytes.TrimSuffix(line[:n], []byte{'\n'})
	nonce, ok := auth.ParseChallenge(text)
	switch {
	case !ok && len(text) > 0 && codec.Op(text[0]) == codec.OpError:
		return fmt.Errorf("the server ended it: E %s", oneLine(text[1:]))
	case !ok:
		return fmt.Errorf("the first line is no challenge: %q", text)
	}
	_, err := conn.Write(auth.AppendResponse(nil, secret, nonce))
	return err
}

// bridge gives a TLS connection a descriptor: one end of a pair of sockets, the
// other end of which is copied from and to it.
func (r *run) bridge(conn net.Conn) (link, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return none, err
	}
	near, far := link(pair[0]), os.NewFile(uintptr(pair[1]), "far")
	inner, err := net.FileConn(far)
	far.Close()
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		near.close()
		return none, err
	}
	// The end of either side is the end of both.
	carry := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src)
		_ = dst.Close()
		_ = src.Close()
	}
	r.bridges.Go(func() { carry(conn, inner) })
	r.bridges.Go(func() { carry(inner, conn) })
	return near, nil
}
