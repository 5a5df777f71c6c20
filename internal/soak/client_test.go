package soak

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/codec"
)

// patience is how late an answer may be before it counts as lost.
const patience = 30 * time.Second

// client is one connection.
type client struct {
	net.Conn              // TLS, on a server that has it
	tcp      *net.TCPConn // below it
	in       *bufio.Reader
}

// errShort says that there was no connection to be had: the server is full or
// out of descriptors, which the soak brings about itself.
var errShort = errors.New("no connection")

// Slow readers have little room from the start: taken away later, the kernel drops
// what comes into it, answers and acknowledgements, and waits ever longer.
var (
	dialer     = &net.Dialer{Timeout: patience}
	slowDialer = &net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		ctrlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return errors.Join(err, ctrlErr)
	}}
)

// connect connects, over TLS where that is spoken.
func (s *server) connect(by *net.Dialer) (*client, error) {
	c, err := by.Dial("tcp", s.addr)
	if err != nil {
		return nil, errShort
	}
	cl := &client{Conn: c, tcp: c.(*net.TCPConn)}
	_ = c.SetDeadline(time.Now().Add(patience))
	if s.authority != nil {
		if cl.Conn, err = s.authority.shake(c); err != nil {
			c.Close()
			return nil, err
		}
	}
	cl.in = bufio.NewReaderSize(cl.Conn, 4096)
	return cl, nil
}

// dial connects and reads the challenge.
func (s *server) dial(by *net.Dialer) (*client, [auth.NonceSize]byte, error) {
	cl, err := s.connect(by)
	if err != nil {
		return nil, [auth.NonceSize]byte{}, err
	}
	line, err := cl.in.ReadBytes('\n')
	if err != nil {
		cl.Close()
		return nil, [auth.NonceSize]byte{}, errShort
	}
	nonce, ok := auth.ParseChallenge(line[:len(line)-1])
	if !ok {
		cl.Close()
		return nil, nonce, fmt.Errorf("challenge %q", line)
	}
	return cl, nonce, nil
}

// login connects and answers the challenge.
func (s *server) login() (*client, error) { return s.loginWith(dialer, secret) }

func (s *server) loginWith(by *net.Dialer, secret string) (*client, error) {
	c, nonce, err := s.dial(by)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(auth.AppendResponse(nil, []byte(secret), nonce)); err != nil {
		c.Close()
		return nil, errShort
	}
	return c, nil
}

// next reads one reply; io.EOF is the end between two.
func (c *client) next() (r codec.Reply, err error) {
	for want := 1; ; want++ {
		b, err := c.in.Peek(want)
		if err != nil {
			if len(b) > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return r, err
		}
		b, _ = c.in.Peek(c.in.Buffered())
		n, err := codec.ParseReply(b, &r)
		if err != nil {
			return r, err
		}
		if n > 0 {
			r.Text = append([]byte(nil), r.Text...)
			_, err := c.in.Discard(n)
			return r, err
		}
		want = len(b)
	}
}

// reset closes with an RST.
func (c *client) reset() {
	_ = c.tcp.SetLinger(0)
	c.tcp.Close()
}

// halfClose ends what the client says: over TLS with close_notify, a FIN, or both.
func (c *client) halfClose(random *rand.Rand) {
	how := random.IntN(3)
	if tc, ok := c.Conn.(*tls.Conn); ok && how > 0 {
		_ = tc.CloseWrite()
		if how == 1 {
			return
		}
	}
	_ = c.tcp.CloseWrite()
}

// closeWith closes c when the soak is over, unless the returned func is called.
func closeWith(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.Close() })
}
