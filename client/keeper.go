package client

import "time"

// The keeper ends what nobody answers: one goroutine with one timer for all
// calls. A call costs it one comparison, because in a healthy client verdicts
// come before they are overdue: the keeper wakes for the earliest instant it
// knows, finds that call long gone, and looks for the next.

// watch makes the keeper look at t or earlier. The call must be in the queue
// or in a session's table already.
func (c *Client) watch(t instant) {
	if c.lowerNext(t) {
		select {
		case c.kick <- struct{}{}:
		default:
		}
	}
}

// lowerNext reports whether t is earlier than what the keeper had planned.
func (c *Client) lowerNext(t instant) bool {
	for {
		next := c.next.Load()
		if int64(t) >= next {
			return false
		}
		if c.next.CompareAndSwap(next, int64(t)) {
			return true
		}
	}
}

// keep is the keeper's goroutine.
func (c *Client) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := instant(c.next.Load())
		now := c.now()
		if next <= now {
			c.sweep(now)
			continue
		}
		if next == never {
			timer.Stop()
		} else {
			timer.Reset(next.sub(now))
		}
		select {
		case <-timer.C:
		case <-c.kick:
		case <-c.ctx.Done():
			return
		}
	}
}

// sweep ends every call that is overdue and plans the next look.
func (c *Client) sweep(now instant) {
	c.next.Store(int64(never)) // before looking: what is watched from here on lowers it again
	var expired []*call
	c.mu.Lock()
	if c.queue.next <= now {
		expired = c.expireLocked(now)
	}
	next := c.queue.next
	sessions := c.sessionsLocked()
	c.mu.Unlock()
	c.deliverAll(expired)
	for _, s := range sessions {
		next = min(next, s.sweep(now))
	}
	c.lowerNext(next)
}

// expireLocked takes the calls off the queue whose deadline has passed: they
// are certainly unsent (§2.6). It returns those to deliver.
func (c *Client) expireLocked(now instant) []*call {
	var expired []*call
	reason := c.unavailableLocked()
	c.queue.filter(func(k *call) bool {
		if k.state.Load() == callDropped {
			c.free(k)
			return false
		}
		if k.deadline > now {
			return true
		}
		if c.endUnsent(k, reason) {
			expired = append(expired, k)
		}
		return false
	})
	return expired
}

// endUnsent ends a queued call at its deadline. The reason is why no session
// could be had; nil when there was one.
func (c *Client) endUnsent(k *call, reason error) bool {
	if k.kind == kindAcquire {
		return c.endQueued(k, verdictUnsent, reason)
	}
	// A release without an answer is never certain (§3.2): an earlier session
	// may have sent it.
	cause := errNoAnswer
	switch {
	case reason != nil:
		cause = unavailableError{reason}
	case !k.resent:
		cause = errNeverSent
	}
	return c.endQueued(k, verdictIndeterminate, cause)
}
