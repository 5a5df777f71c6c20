package scripted

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"ticketing/auth"
	"ticketing/codec"
)

// Conn is one connection of a Server, as its orders and its test see it.
type Conn struct {
	srv       *Server
	conn      net.Conn
	id        int
	script    []Order
	otherwise Order
	secrets   *auth.Secrets
	greeting  []byte
	exact     bool // an order reads part of a frame: never read ahead

	in []byte // read and not consumed; the reader's

	mu    sync.Mutex
	out   []output
	held  [][]byte      // kept back by Hold
	ended bool          // no more replies are taken; what is queued still goes out
	cut   bool          // not even that
	wake  chan struct{} // capacity 1: out, ended or cut has changed
	gone  chan struct{} // closed with ended
	done  chan struct{} // closed when the connection is over
}

// output is bytes to send, or a mark to close when everything before is sent.
type output struct {
	frame []byte
	sent  chan struct{}
}

// ID numbers the server's connections from 1.
func (c *Conn) ID() int { return c.id }

// Send queues bytes for the client, a frame or not. They go out behind what is
// queued already.
func (c *Conn) Send(frame []byte) {
	c.mu.Lock()
	if !c.ended {
		c.out = append(c.out, output{frame: slices.Clone(frame)})
	}
	c.mu.Unlock()
	c.signal()
}

// Flush waits until every reply so far has gone out. It does not wait on a
// connection that is ending or cut.
func (c *Conn) Flush() {
	sent := make(chan struct{})
	c.mu.Lock()
	c.out = append(c.out, output{sent: sent})
	c.mu.Unlock()
	c.signal()
	select {
	case <-sent:
	case <-c.gone:
	}
}

// End closes the connection once what is queued has gone out.
func (c *Conn) End() {
	c.mu.Lock()
	c.endLocked()
	c.mu.Unlock()
	c.signal()
}

// Cut closes the connection at once.
func (c *Conn) Cut() {
	c.mu.Lock()
	c.endLocked()
	c.cut = true
	c.mu.Unlock()
	c.conn.Close()
	c.signal()
}

func (c *Conn) endLocked() {
	if !c.ended {
		c.ended = true
		close(c.gone)
	}
}

func (c *Conn) hasEnded() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// Ended reports whether the connection is over, on either side's account.
func (c *Conn) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.done }

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that sends: a client that does not read never stops
// the server from reading.
func (c *Conn) write() {
	for {
		c.mu.Lock()
		var next output
		some := len(c.out) > 0 && !c.cut
		if some {
			next, c.out = c.out[0], c.out[1:]
		}
		over := !some && c.ended
		c.mu.Unlock()
		switch {
		case over:
			c.hangUp()
			return
		case !some:
			<-c.wake
		case next.sent != nil:
			close(next.sent)
		default:
			if _, err := c.conn.Write(next.frame); err != nil {
				c.Cut()
			}
		}
	}
}

// hangUp closes so that the client can read what was sent (protocol §6).
func (c *Conn) hangUp() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		timer := time.AfterFunc(time.Second, func() { c.conn.Close() })
		defer timer.Stop()
		<-c.done // the reader discards until the client's end
	}
	c.conn.Close()
}

// read is the goroutine that takes frames and carries out their orders.
func (c *Conn) read() {
	defer func() {
		c.srv.table.leave(c)
		close(c.done)
		c.End()
	}()
	if !c.shakeHands() {
		c.discard()
		return
	}
	for {
		if c.hasEnded() { // after its last reply a server ignores what comes (protocol §6)
			c.discard()
			return
		}
		o := c.otherwise
		if len(c.script) > 0 {
			o = c.script[0]
		}
		if o.read >= 0 {
			if c.more(o.read) {
				o.act(c, Frame{Conn: c.id}, c.Send)
			}
			c.discard()
			return
		}
		var r codec.Request
		n, reason := codec.ParseRequest(c.in, &r)
		switch {
		case reason != codec.ReasonNone:
			c.Send(codec.AppendError(nil, reason))
			c.End()
			c.discard()
			return
		case n == 0:
			if !c.more(1) {
				return
			}
			continue
		case r.Op == codec.OpKeepAlive:
			c.in = c.in[n:]
			continue
		}
		f := Frame{Conn: c.id, At: time.Now(), Op: r.Op, Wait: r.Wait, Lease: r.Lease, ID: r.ID, Key: string(r.Key)}
		c.in = c.in[n:]
		if len(c.script) > 0 {
			c.script = c.script[1:]
		}
		c.srv.record(f)
		o.act(c, f, c.Send)
	}
}

// more reads at least n further bytes, and exactly n when an order reads part
// of a frame. It reports false at the end of the stream.
func (c *Conn) more(n int) bool {
	size := n
	if !c.exact {
		size = max(n, 4096)
	}
	buf := make([]byte, size)
	got, err := io.ReadAtLeast(c.conn, buf, n)
	c.in = append(bytes.Clone(c.in), buf[:got]...)
	return err == nil
}

// discard reads until the stream ends.
func (c *Conn) discard() { _, _ = io.Copy(io.Discard, c.conn) }

// shakeHands carries out the server's side of protocol §8.
func (c *Conn) shakeHands() bool {
	h := auth.Handshake{}
	greeting := c.greeting
	if c.secrets != nil {
		h.Nonce, _ = auth.NewNonce(rand.Reader)
		if greeting == nil {
			greeting = auth.AppendChallenge(nil, h.Nonce)
		}
	}
	if greeting != nil {
		c.Send(greeting)
	}
	if c.secrets == nil {
		return true
	}
	for {
		n, verdict := h.Step(c.in, c.secrets)
		switch verdict {
		case auth.Accepted:
			c.in = c.in[n:]
			return true
		case auth.NeedMore:
			if !c.more(1) {
				return false
			}
		default:
			reason := codec.ReasonAuthFailed
			if verdict == auth.TooLong {
				reason = codec.ReasonLineTooLong
			}
			c.Send(codec.AppendError(nil, reason))
			c.End()
			return false
		}
	}
}
