package client

import (
	"time"
)

// connect is the connector's goroutine: it opens sessions one at a time, when
// calls want them.
func (c *Client) connect() {
	for {
		select {
		case <-c.dial:
		case <-c.ctx.Done():
			return
		}
		for kicked := true; ; kicked = false {
			addr, turn, delay, wanted := c.plan(kicked)
			if !wanted {
				break
			}
			if !c.pause(delay) {
				return
			}
			if delay > 0 && !c.still(addr) {
				continue // steered elsewhere meanwhile
			}
			s, err := c.open(addr)
			if err != nil {
				c.missed(addr, turn, err)
			} else {
				s.turn = turn
				c.adopt(s)
			}
		}
	}
}

// plan says where to connect next and how long to wait before. Whoever kicked
// saw that a session is wanted; after that the connector judges by itself, and
// when no more are wanted it is done until it is kicked again.
func (c *Client) plan(kicked bool) (addr string, turn int, delay time.Duration, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = kicked && c.mayDialLocked() || c.wantDialLocked()
	return c.route.target, c.route.turn, c.route.delay(), c.dialing
}

func (c *Client) still(addr string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.route.target == addr
}

// pause waits; it reports false when the client is closed.
func (c *Client) pause(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// progress keeps what is under way, for calls that end before it does.
func (c *Client) progress(what error) {
	c.mu.Lock()
	if !c.route.failed {
		c.route.reason = what
	}
	c.mu.Unlock()
}

// unavailableLocked is why no session could be had; nil when there is one.
func (c *Client) unavailableLocked() error {
	if len(c.live) > 0 {
		return nil
	}
	if c.route.reason == nil {
		return errConnecting
	}
	return c.route.reason
}

// missed notes that a connection could not be opened.
func (c *Client) missed(addr string, turn int, err error) {
	if c.ctx.Err() != nil {
		return
	}
	c.log.Warn("ticketing: no session", "addr", addr, "reason", err)
	c.mu.Lock()
	c.route.miss(turn, err)
	settled := c.refuseLocked()
	c.mu.Unlock()
	c.deliverAll(settled)
}

// refuseLocked ends what is queued when every server refuses this client for
// good: waiting would change nothing (§4). It returns the calls to deliver.
func (c *Client) refuseLocked() (settled []*call) {
	if len(c.live) > 0 || !c.route.refused() {
		return nil
	}
	reason := c.route.reason
	c.queue.filter(func(k *call) bool {
		v, cause := verdictUnavailable, reason
		if k.kind != kindAcquire {
			v, cause = verdictIndeterminate, unavailableError{reason}
		}
		if c.endQueued(k, v, cause) {
			settled = append(settled, k)
		}
		return false
	})
	return settled
}

// adopt puts a session to work, unless the target has changed meanwhile.
func (c *Client) adopt(s *session) {
	c.mu.Lock()
	if c.phase != phaseOpen || s.addr != c.route.target {
		c.mu.Unlock()
		s.raw.Close()
		return
	}
	if !c.route.failed {
		c.route.reason = nil
	}
	c.live = append(c.live, s)
	c.all[s] = struct{}{}
	c.wg.Go(s.run)
	c.mu.Unlock()
	c.counts.connects.Add(1)
	c.log.Info("ticketing: session opened", "addr", s.addr)
}

// proved notes that a session has answered a request.
func (c *Client) proved(s *session) {
	c.mu.Lock()
	if s.addr == c.route.target {
		c.route.proved()
	}
	c.mu.Unlock()
}

// sessionEnded takes a session out of service, learns from how it ended where
// to go next, and puts back the calls it did not execute.
func (c *Client) sessionEnded(s *session, requeue []*call) {
	s.mu.Lock()
	end, proven := s.end, s.proven
	s.mu.Unlock()
	c.log.Info("ticketing: session ended", "addr", s.addr, "reason", end.err)

	c.mu.Lock()
	c.removeLocked(s)
	c.learnLocked(s, end, proven)
	retired := c.retireLocked()
	settled := c.requeueLocked(requeue)
	settled = append(settled, c.refuseLocked()...)
	picked, dial, next := c.pickLocked(), c.claimDialLocked(), c.queue.next
	c.mu.Unlock()

	c.wake(picked, dial)
	c.watch(next)
	c.deliverAll(settled)
	for _, old := range retired {
		old.killIfIdle(errRetired)
	}
}

func (c *Client) removeLocked(s *session) {
	delete(c.all, s)
	c.awakeLocked(s)
	s.idle = false
	c.dropLiveLocked(s)
}

// dropLiveLocked takes s out of the sessions that get calls.
func (c *Client) dropLiveLocked(s *session) {
	for i, other := range c.live {
		if other == s {
			last := len(c.live) - 1
			c.live[i] = c.live[last]
			c.live[last] = nil
			c.live = c.live[:last]
			return
		}
	}
}

// learnLocked draws the conclusions of a session's end for the route.
func (c *Client) learnLocked(s *session, end ending, proven bool) {
	r := &c.route
	switch end.kind {
	case endMoved, endLost:
		if !r.steer(s.addr, end.addr) {
			r.miss(s.turn, end.err)
		} else if !r.failed {
			r.fail(end.err)
		}
	case endUnexecuted, endRefused, endOverdue: // of a cluster, another one may lead by now
		r.miss(s.turn, end.err)
	case endBroken, endProtocol:
		if proven {
			r.fail(end.err) // the same server deserves another connection at once
		} else {
			r.miss(s.turn, end.err)
		}
	}
}

// retireLocked takes the sessions out of service that are not on the target.
func (c *Client) retireLocked() (retired []*session) {
	for s := range c.all {
		if s.addr != c.route.target && !s.retired.Load() {
			s.retired.Store(true)
			c.awakeLocked(s)
			s.idle = false
			c.dropLiveLocked(s)
			retired = append(retired, s)
		}
	}
	return retired
}

// killIfIdle ends a session that owes nobody an answer.
func (s *session) killIfIdle(reason error) {
	s.mu.Lock()
	ended := s.live == 0 && s.endLocked(ending{kind: endNotNeeded, err: reason})
	s.mu.Unlock()
	s.hangUp(ended)
}
