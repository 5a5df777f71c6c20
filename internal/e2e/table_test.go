package e2e

import (
	"fmt"
	"testing"
	"time"
)

// cell is a key brought into one of the states of §10.
type cell struct {
	key    string
	token  uint64 // what holds the key now, 0 if free
	stale  uint64 // a token that held it before, 0 if none did
	head   *peer  // who stands first in the queue, nil if it is empty
	headID uint64 // owner of that attempt
}

// brinkOf waits until a lease of a second, granted by the time of r, is over.
func brinkOf(r reply) { time.Sleep(time.Until(r.at.Add(time.Second))) }

// state brings a key into a state; for "lease ended" it returns at the moment
// the lease is over.
func (s *server) state(t *testing.T, name, key string) cell {
	t.Helper()
	p := s.dial(t)
	c := cell{key: key}
	short := func() reply {
		o := newOwner()
		p.send(acquire(o, 0, 1, key))
		return p.expect('A', o, key)
	}
	switch name {
	case "never used":
	case "free":
		c.stale = p.lock(key, 250)
		p.unlock(c.stale, key)
	case "held":
		c.token = p.lock(key, 250)
	case "held, queue":
		c.token, c.head = p.lock(key, 250), s.dial(t)
		c.headID = c.head.queue(250, 250, key)
	case "ended, queue":
		r := short()
		c.stale, c.head = r.token, s.dial(t)
		c.headID = c.head.queue(250, 250, key)
		c.token = c.head.expect('A', c.headID, key).token
		c.head, c.headID = s.dial(t), c.head.queue(250, 250, key)
		c.head = nil // the head was granted; one more stands behind it
	case "ended":
		r := short()
		c.stale = r.token
		brinkOf(r)
	default:
		t.Fatalf("no state %q", name)
	}
	return c
}

// TestStateTable walks through every cell of §10.
func TestStateTable(t *testing.T) {
	type row struct {
		name string
		run  func(t *testing.T, s *server, c cell)
	}
	tokens := func(c cell) []uint64 {
		bad := []uint64{0, c.token + 1, c.token + 1<<40, 1<<64 - 1, 1 << 63}
		if c.stale != 0 {
			bad = append(bad, c.stale, c.stale, c.stale<<32)
		}
		return bad
	}
	now := row{"A wait=0", func(t *testing.T, s *server, c cell) {
		p, o := s.dial(t), newOwner()
		p.send(acquire(o, 0, 250, c.key))
		if c.token != 0 {
			p.expect('T', o, c.key)
			return
		}
		if r := p.expect('A', o, c.key); r.token <= c.stale {
			t.Errorf("new token %d is not above %d", r.token, c.stale)
		}
	}}
	later := row{"A wait>0", func(t *testing.T, s *server, c cell) {
		p := s.dial(t)
		if c.token == 0 {
			o := newOwner()
			p.send(acquire(o, 255, 250, c.key))
			if r := p.expect('A', o, c.key); r.token <= c.stale {
				t.Errorf("new token %d is not above %d", r.token, c.stale)
			}
			return
		}
		o := p.queue(255, 250, c.key)
		if c.head == nil {
			return
		}
		r := s.dial(t) // at the end: the head comes first
		r.unlock(c.token, c.key)
		r.unlock(c.head.expect('A', c.headID, c.key).token, c.key)
		p.expect('A', o, c.key)
	}}
	foreign := row{"R of a token that does not hold", func(t *testing.T, s *server, c cell) {
		p := s.dial(t)
		for _, token := range tokens(c) {
			p.send(release(token, c.key))
			p.expect('N', token, c.key)
		}
		if c.token != 0 { // and it changed nothing
			p.refused('T', 0, c.key)
		} else {
			p.lock(c.key, 250)
		}
	}}
	own := row{"R of the token that holds", func(t *testing.T, s *server, c cell) {
		p := s.dial(t)
		p.unlock(c.token, c.key)
		if c.head != nil {
			if r := c.head.expect('A', c.headID, c.key); r.token <= c.token {
				t.Errorf("hand-over from token %d to %d", c.token, r.token)
			}
			p.refused('T', 0, c.key)
		} else {
			p.lock(c.key, 250)
		}
		p.send(release(c.token, c.key))
		p.expect('N', c.token, c.key)
	}}
	t.Parallel()
	for _, loops := range []int{1, 4} {
		s := startLoops(t, loops)
		for name, rows := range map[string][]row{
			"never used":   {now, later, foreign},
			"free":         {now, later, foreign},
			"held":         {now, later, foreign, own},
			"held, queue":  {now, later, foreign, own},
			"ended, queue": {now, later, foreign},
			"ended":        {now, later, foreign},
		} {
			for _, r := range rows {
				t.Run(fmt.Sprintf("loops=%d/%s/%s", loops, name, r.name), func(t *testing.T) {
					t.Parallel()
					for i := range 4 {
						r.run(t, s, s.state(t, name, fmt.Sprintf("%s/%s/%d", tight(name), tight(r.name), i)))
					}
				})
			}
		}
	}
}

// tight makes a key of a title.
func tight(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == ' ' {
			b[i] = '_'
		}
	}
	return string(b)
}

// TestSameOwnerTwice: an owner is no authority (§3.4).
func TestSameOwnerTwice(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p, q := s.dial(t), s.dial(t)
		const o = 42
		p.send(acquire(o, 0, 250, "k"))
		first := p.expect('A', o, "k").token
		p.send(acquire(o, 0, 250, "k"))
		p.expect('T', o, "k") // it does not get the token again
		p.send(acquire(o, 9, 250, "k"), acquire(o, 9, 250, "k"), release(0, "k"))
		p.expect('N', 0, "k") // it queues, twice
		q.send(acquire(o, 0, 250, "k"))
		q.expect('T', o, "k")
		q.unlock(first, "k")
		second := p.expect('A', o, "k").token
		q.unlock(second, "k")
		third := p.expect('A', o, "k").token
		if !(first < second && second < third) {
			t.Errorf("tokens %d, %d, %d", first, second, third)
		}
		q.send(release(first, "k"), release(second, "k"))
		q.expect('N', first, "k")
		q.expect('N', second, "k")
		q.unlock(third, "k")
	})
}

// TestReleaseIsForItsKey: a token releases the key it was issued for only.
func TestReleaseIsForItsKey(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		keys := []string{"k", "k\r", "k\x00", "K", "k1", text(128), text(127), "é", "e\u0301"}
		held := map[string]uint64{}
		for _, key := range keys {
			held[key] = p.lock(key, 250)
		}
		for _, key := range keys {
			for _, other := range keys {
				if other != key {
					p.send(release(held[key], other))
					p.expect('N', held[key], other)
				}
			}
		}
		for _, key := range keys {
			s.dial(t).unlock(held[key], key)
			p.send(release(held[key], key))
			p.expect('N', held[key], key)
		}
	})
}
