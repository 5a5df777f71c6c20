package client

import "time"

// Close ends the client. Acquires end at once: with ErrClosed when they are
// certainly unsent, with ErrIndeterminate (and ErrClosed as its cause) when
// they may have been sent. Releases that are under way, those of a done context
// and compensating ones too, get a quarter of a second to be answered. When
// Close returns no goroutine of the client is left. Tickets stay valid until
// their leases end, but can only be released through another client.
//
// Close always returns nil; calling it again waits for the first call.
func (c *Client) Close() error {
	c.closing.Do(func() {
		defer close(c.isClosed)
		c.endAcquires()
		c.awaitReleases()
		c.endAll()
		c.wg.Wait()
	})
	<-c.isClosed
	return nil
}

// endAcquires lets no more calls in and ends every acquire.
func (c *Client) endAcquires() {
	var settled []*call
	c.mu.Lock()
	c.phase = phaseDraining
	c.queue.filter(func(k *call) bool {
		if k.kind != kindAcquire {
			return true
		}
		if c.endClosed(k) {
			settled = append(settled, k)
		}
		return false
	})
	sessions := c.sessionsLocked()
	c.mu.Unlock()
	for _, s := range sessions {
		settled = append(settled, s.endAcquires()...)
	}
	c.deliverAll(settled)
}

// endAcquires ends the session's acquires for their callers and keeps them as
// abandoned, so that what is still granted is given back.
func (s *session) endAcquires() (settled []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner, k := range s.acquires {
		if k.state.Load() != callFlying {
			continue
		}
		left := s.c.newCall(kindAcquire, k.id, k.key, k.deadline)
		left.state.Store(callAbandoned)
		s.acquires[owner] = left
		s.live--
		s.abandoned++
		k.settle(verdictIndeterminate, ErrClosed)
		settled = append(settled, k)
	}
	s.load.Store(int32(s.live))
	return settled
}

// awaitReleases waits until no release is unanswered, for closeGrace at most,
// and not at all without a session to send them.
func (c *Client) awaitReleases() {
	c.mu.Lock()
	hopeless := len(c.all) == 0
	c.mu.Unlock()
	if hopeless || c.releases.Load() == 0 {
		return
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	for c.releases.Load() > 0 {
		select {
		case <-c.drained:
		case <-timer.C:
			return
		}
	}
}

// releasesAnswered is called whenever no release is unanswered any more.
func (c *Client) releasesAnswered() {
	select {
	case c.drained <- struct{}{}:
	default:
	}
}

// endAll ends what is left, sessions and goroutines.
func (c *Client) endAll() {
	var settled []*call
	c.mu.Lock()
	c.phase = phaseClosed
	c.queue.filter(func(k *call) bool {
		if c.endClosed(k) {
			settled = append(settled, k)
		}
		return false
	})
	sessions := c.sessionsLocked()
	c.mu.Unlock()
	c.stop()
	for _, s := range sessions {
		s.kill(ending{kind: endClosed, err: ErrClosed})
	}
	c.deliverAll(settled)
}

func (c *Client) sessionsLocked() []*session {
	sessions := make([]*session, 0, len(c.all))
	for s := range c.all {
		sessions = append(sessions, s)
	}
	return sessions
}
