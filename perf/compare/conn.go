package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one connection of a generator.
type conn struct {
	g     *generator
	id    int
	fd    int
	next  uint64 // number of the next attempt
	slots []slot
	in    []byte
	got   int // bytes in front of in
	out   []byte

	// For protocols that answer in order: a ring of the slots that were asked for.
	asked      []uint16
	head, tail uint32
}

func newConn(g *generator, id, fd int) *conn {
	room := 1
	for room < g.depth {
		room *= 2
	}
	c := &conn{
		g: g, id: id, fd: fd,
		slots: make([]slot, g.depth),
		in:    make([]byte, 1024+64*g.depth),
		asked: make([]uint16, room),
	}
	for i := range c.slots {
		c.slots[i].index = uint16(i)
	}
	return c
}

// expect notes that the next answer will be for s.
func (c *conn) expect(s *slot) {
	c.asked[int(c.tail)&(len(c.asked)-1)] = s.index
	c.tail++
}

// first is the slot that the next answer is for.
func (c *conn) first() *slot {
	if c.head == c.tail {
		return nil
	}
	return &c.slots[c.asked[int(c.head)&(len(c.asked)-1)]]
}

func (c *conn) acquire(s *slot) {
	c.next++
	c.g.asked++
	s.owner = uint64(c.id)<<48 | c.next&(1<<36-1)<<12 | uint64(s.index)
	s.state, s.sent = grant, c.g.now
	c.g.chooseKey(c, s)
	c.out = c.g.proto.appendAcquire(c.out, c, s)
}

// granted is called by protocols: s holds its key.
func (c *conn) granted(s *slot) error {
	g := c.g
	if g.recording && s.sent >= g.since {
		g.latency.add(g.now - s.sent)
		g.longest = max(g.longest, g.now-s.sent)
	}
	if g.task != pairing {
		g.filled++
		s.state = nothing
		if g.task == filling && g.asked < g.fill {
			c.acquire(s)
		}
		return nil
	}
	if g.contended > 0 {
		if err := g.handedOver(c, s); err != nil {
			return err
		}
	}
	s.state = release
	c.out = g.proto.appendRelease(c.out, c, s)
	return nil
}

// handedOver judges a grant of a contended key.
func (g *generator) handedOver(c *conn, s *slot) error {
	k, me := g.wanted(c, s), int32(c.id*len(c.slots)+int(s.index))
	if g.holder[k] >= 0 {
		return fmt.Errorf("key %s is granted to slot %d while slot %d holds it", s.key, me, g.holder[k])
	}
	if g.last[k] != me && g.recording {
		g.passed++
	}
	g.holder[k], g.last[k] = me, me
	g.grants[c.id]++
	return nil
}

// released is called by protocols: s gave its key back.
func (c *conn) released(s *slot) {
	c.g.pairs++
	c.acquire(s)
}

// receive reads once, handles what is whole and writes what follows from it.
func (c *conn) receive() error {
	n, err := unix.Read(c.fd, c.in[c.got:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("reading: %w", err)
	case n == 0:
		return errors.New("the server closed a connection")
	}
	c.g.now = nanotime()
	c.got += n
	used, err := c.g.proto.parse(c, c.in[:c.got])
	if err != nil {
		return err
	}
	copy(c.in, c.in[used:c.got])
	c.got -= used
	return c.flush()
}

// flush writes all there is. With contended keys the releases among it are the
// moment from which somebody else may hold them.
func (c *conn) flush() error {
	if c.g.contended > 0 && len(c.out) > 0 {
		for i := range c.slots {
			if s := &c.slots[i]; s.state == release {
				if k := c.g.wanted(c, s); c.g.holder[k] == int32(c.id*len(c.slots)+i) {
					c.g.holder[k] = -1
				}
			}
		}
	}
	for b := c.out; len(b) > 0; {
		n, err := unix.Write(c.fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			ready := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}
			if n, err := unix.Poll(ready, 5000); n == 0 && err == nil {
				return errors.New("the server does not read")
			}
		default:
			return fmt.Errorf("writing: %w", err)
		}
	}
	c.out = c.out[:0]
	return nil
}

// dial returns a connected socket that does not block.
func dial(addr string) (int, error) {
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	to := &unix.SockaddrInet4{Port: a.Port}
	copy(to.Addr[:], a.IP.To4())
	for err = unix.Connect(fd, to); err == unix.EINTR || err == unix.EALREADY; {
		err = unix.Connect(fd, to)
	}
	if err == nil || err == unix.EISCONN {
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// prepare lets a protocol say what it has to say over a connection of its own.
func prepare(p preparer, g *generator) error {
	conn, err := net.Dial("tcp", g.server.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	return p.prepare(conn, g)
}
