package bench

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// slotState is what a slot does. An idle one begins an attempt; a grant is held
// for Config.Hold, or released at once; any other answer ends the attempt.
//
//	idle ──A sent──▶ acquiring ──A──▶ holding ──R sent──▶ releasing ──R, N──▶ idle
//	  ▲                  │ T, B
//	  └──────────────────┘
type slotState uint8

const (
	idle slotState = iota
	acquiring
	holding
	releasing
)

// slot is one attempt at a time.
type slot struct {
	owner    uint64
	token    uint64
	floor    uint64 // greatest token received before the acquire was sent
	sent     int64  // the request under way, at the earliest; 0: not written yet
	due      int64  // what its latency counts from; 0: from sent
	granted  int64  // received
	begun    int64  // of the lease, at the earliest
	key      uint32
	state    slotState
	measured bool // the attempt belongs to the measured ones
}

// An owner is the connection, a number that rises on it, and the slot.
const (
	slotBits = 12 // MaxPipeline
	turnBits = 38
)

// connOf is the connection that an owner was made for.
func connOf(owner uint64) int { return int(owner >> (slotBits + turnBits)) }

// turn is the last grant of a key on a connection.
type turn struct {
	owner, token uint64
	key          uint32
}

// conn is one connection of a thread.
type conn struct {
	w  *worker
	id uint32
	fd int // owned

	slots    []slot
	next     uint64 // number of the next attempt
	releases releaseTable
	turns    []turn // by the key's low bits; nil where two attempts for a key hardly meet

	in       []byte
	got      int // bytes in front of in
	out      []byte
	written  int      // bytes of out
	queued   []uint16 // slots whose request is in out and not stamped yet
	dirty    bool     // on the thread's list of those to write
	blocked  bool     // the socket took less than all: polled for room
	answered bool     // something was received that is a reply
	ended    bool
}

func newConn(w *worker, id uint32, l link) *conn {
	cfg := w.cfg
	frame := codec.MaxGranted - codec.MaxKey + cfg.KeySize
	c := &conn{
		w: w, id: id, fd: int(l),
		slots:    make([]slot, cfg.Pipeline),
		releases: newReleaseTable(cfg.Pipeline),
		in:       make([]byte, min(max(4096, cfg.Pipeline*frame*2), 256<<10)),
		queued:   make([]uint16, 0, cfg.Pipeline),
	}
	if cfg.Pipeline > 1 && cfg.Wait > 0 && (cfg.Dist != Uniform || cfg.Keys <= 16*cfg.Pipeline) {
		c.turns = make([]turn, powerOfTwo(2*cfg.Pipeline))
	}
	return c
}

func powerOfTwo(atLeast int) int {
	n := 1
	for n < atLeast {
		n *= 2
	}
	return n
}

// acquire begins an attempt in an idle slot. due is 0 in the closed loop.
func (c *conn) acquire(i uint16, due int64) {
	w, s := c.w, &c.slots[i]
	s.owner = uint64(c.id)<<(slotBits+turnBits) | (c.next&(1<<turnBits-1))<<slotBits | uint64(i)
	c.next++
	s.key = w.draw.next(&w.random)
	s.floor, s.due, s.sent, s.state = w.floor, due, 0, acquiring
	s.measured = w.counts(due)
	w.keyText = w.names.appendKey(w.keyText[:0], s.key)
	c.out = codec.AppendAcquire(c.out, s.owner, w.wait, w.lease, w.keyText)
	c.queue(i)
	w.open++
}

// release gives the grant of a slot back.
func (c *conn) release(i uint16, due int64, key []byte) {
	s := &c.slots[i]
	s.due, s.sent, s.state = due, 0, releasing
	c.out = codec.AppendRelease(c.out, s.token, key)
	c.queue(i)
}

func (c *conn) queue(i uint16) {
	c.queued = append(c.queued, i)
	if !c.dirty {
		c.dirty = true
		c.w.dirty = append(c.w.dirty, c)
	}
}

// receive reads once and handles all replies that are whole.
func (c *conn) receive() {
	n, err := read(c.fd, c.in[c.got:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil:
		c.end(fmt.Errorf("reading: %w", err))
		return
	case n == 0:
		c.end(errors.New("the server closed it"))
		return
	}
	c.w.now = c.w.clock()
	c.got += n
	used := 0
	for more := true; more && !c.ended; {
		var size int
		size, more = c.handleSome(c.in[used:c.got])
		used += size
	}
	if c.ended {
		return
	}
	copy(c.in, c.in[used:c.got])
	c.got -= used
}

// readAhead asks for the states of the keys that are granted, which are far away
// in memory. Asked for in one go, all of them come in the time of a few. It
// returns nothing of meaning.
func (c *conn) readAhead(replies []codec.Reply) (sum int64) {
	if c.w.verify.locks != nil {
		return 0
	}
	keys, slots := c.w.verify.keys, c.slots
	for i := range replies {
		r := &replies[i]
		if at := int(r.Owner & (1<<slotBits - 1)); r.Op == codec.OpGranted && at < len(slots) {
			sum ^= keys[slots[at].key].span
		}
	}
	return sum
}

// handleSome handles whole replies at the front of b, as many as are looked at
// together, and returns the bytes they had and whether there may be more.
func (c *conn) handleSome(b []byte) (used int, more bool) {
	w := c.w
	replies, broken := w.replies[:0], error(nil)
	for len(replies) < cap(replies) && used < len(b) {
		replies = replies[:len(replies)+1]
		r := &replies[len(replies)-1]
		n, err := codec.ParseReply(b[used:], r)
		if n == 0 {
			replies, broken = replies[:len(replies)-1], err
			break
		}
		used += n
	}
	w.ahead = c.readAhead(replies)
	for i := range replies {
		c.handle(&replies[i], w.now)
		if c.ended {
			return used, false
		}
		c.answered = true
	}
	if broken != nil {
		c.malformed(broken, b[used:])
	}
	return used, len(replies) == cap(replies)
}

// flush stamps and writes what is queued.
func (c *conn) flush() {
	c.dirty = false
	if c.ended {
		return
	}
	if len(c.queued) > 0 {
		c.stamp(c.w.clock())
	}
	for c.written < len(c.out) {
		n, err := write(c.fd, c.out[c.written:])
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			c.block(true)
			return
		}
		if err != nil {
			c.end(fmt.Errorf("writing: %w", err))
			return
		}
		c.written += n
	}
	c.out, c.written = c.out[:0], 0
	if c.blocked {
		c.block(false)
	}
}

// stamp notes the instant at which queued requests go out.
func (c *conn) stamp(now int64) {
	for _, i := range c.queued {
		s := &c.slots[i]
		s.sent = now
		if s.due == 0 {
			s.due = now
		}
		if s.state == releasing {
			c.releases.add(c.slots, i)
			c.w.verify.releasing(s.key, s.token, now)
		}
	}
	c.queued = c.queued[:0]
}

// block has the connection polled for room as well, or not.
func (c *conn) block(on bool) {
	events := uint32(unix.EPOLLIN)
	if on {
		events |= unix.EPOLLOUT
	}
	if c.blocked != on {
		c.blocked = on
		c.w.poll(unix.EPOLL_CTL_MOD, c.fd, events, c.local())
	}
}

func (c *conn) local() int32 { return int32(c.id) / int32(c.w.cfg.Threads) }

// malformed ends a connection whose bytes are no replies.
func (c *conn) malformed(err error, rest []byte) {
	shown := rest[:min(len(rest), 60)]
	if !c.answered && rest[0] == 'C' { // the challenge of §8
		c.end(errors.New("the server asks for a secret"))
		return
	}
	c.w.verify.found.add(Violation{
		Kind: Malformed, Connections: []int{int(c.id)}, Times: []float64{seconds(c.w.now)},
		Text: fmt.Sprintf("connection %d at %s: %v: %q", c.id, instant(c.w.now), err, shown),
	})
	c.end(fmt.Errorf("what came is no reply: %w", err))
}

// end gives the connection up. What is unanswered on it stays so.
func (c *conn) end(err error) {
	if c.ended {
		return
	}
	c.ended = true
	w := c.w
	for i := range c.slots {
		s := &c.slots[i]
		if s.state == idle {
			continue
		}
		if s.state != holding {
			w.indeterminate++
		}
		if s.measured {
			w.pending--
		}
		w.open--
		s.state = idle
	}
	w.poll(unix.EPOLL_CTL_DEL, c.fd, 0, 0)
	link(c.fd).close()
	w.live--
	w.run.connEnded(c.id, c.answered, err)
}
