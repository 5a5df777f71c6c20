package client

import (
	"context"
	"math"
	"time"
)

// Acquire asks for key and waits for its turn. The min work budget is what the
// caller's critical work needs of the lease: the work itself, expected pauses,
// and finishing a commit or rollback (§1); 0 to 250 s.
//
// With a Ticket the critical section may be entered. With an error it must
// not; ClassOf says whether the server said no, nothing was done, or nobody
// knows. Release the ticket when the work is done.
//
// The wait (option Wait, 30 s) covers everything: queueing here, connecting,
// sending and the server's queue. A healthy server's verdict that is on its way
// when it ends is waited for up to 1.25 s longer (§2.7). The end of ctx ends
// the call at once.
func (c *Client) Acquire(ctx context.Context, key string, minWorkBudget time.Duration, opts ...Option) (*Ticket, error) {
	t, err := settleTerms(key, minWorkBudget, opts)
	if err != nil {
		return nil, acquireError(key, ClassNotExecuted, err, nil)
	}
	if ctx.Err() != nil {
		return nil, contextEnded(ctx, key)
	}
	owner, ok := c.nextOwner()
	if !ok {
		return nil, acquireError(key, ClassNotExecuted, ErrOwnersExhausted, nil)
	}
	patience := t.wait
	if t.wait == 0 {
		patience = immediateLimit
	}
	k := c.newCall(kindAcquire, owner, key, c.now().add(patience)) // the one deadline of §2.1
	k.lease, k.immediate = uint8(t.lease/time.Second), t.wait == 0
	if !c.submit(k) {
		c.free(k)
		return nil, acquireError(key, ClassNotExecuted, ErrClosed, nil)
	}
	if !k.await(ctx) {
		switch c.leave(k) {
		case leftUnsent:
			return nil, contextEnded(ctx, key)
		case leftSent:
			return nil, acquireError(key, ClassIndeterminate, ErrIndeterminate, causeOf(ctx))
		}
		<-k.done // a verdict was quicker
	}
	return c.gate(ctx, k, t.lease, minWorkBudget)
}

// nextOwner gives out the number of an attempt (§2.2). It reports false, now
// and for ever, when the next would be 0.
func (c *Client) nextOwner() (uint64, bool) {
	for {
		last := c.owner.Load()
		if last == math.MaxUint64 {
			return 0, false
		}
		if c.owner.CompareAndSwap(last, last+1) {
			return last + 1, true
		}
	}
}

// gate is where a Ticket is handed out, or not (§2.8, §2.10). It frees k.
func (c *Client) gate(ctx context.Context, k *call, lease, budget time.Duration) (*Ticket, error) {
	verdict, cause, key, token, deadline := k.verdict, k.cause, k.key, k.token, k.deadline
	ends := k.at.add(lease)
	c.free(k)
	switch verdict {
	case verdictGranted:
	case verdictTimeout:
		return nil, acquireError(key, ClassNotGranted, ErrTimeout, nil)
	case verdictBusy:
		return nil, acquireError(key, ClassNotGranted, ErrBusy, nil)
	case verdictUnsent:
		if cause != nil {
			return nil, acquireError(key, ClassNotExecuted, ErrUnavailable, cause)
		}
		return nil, acquireError(key, ClassNotExecuted, ErrTimeout, errNeverSent)
	case verdictUnavailable:
		return nil, acquireError(key, ClassNotExecuted, ErrUnavailable, cause)
	case verdictClosed:
		return nil, acquireError(key, ClassNotExecuted, ErrClosed, nil)
	default:
		return nil, acquireError(key, ClassIndeterminate, ErrIndeterminate, cause)
	}

	now := c.now()
	switch left := ends.sub(now); {
	case now >= deadline:
		c.compensate(key, token)
		return nil, acquireError(key, ClassIndeterminate, ErrIndeterminate, errLateGrant)
	case ctx.Err() != nil:
		c.compensate(key, token)
		return nil, acquireError(key, ClassIndeterminate, ErrIndeterminate, causeOf(ctx))
	case left < budget || left <= 0:
		c.compensate(key, token)
		return nil, acquireError(key, ClassNotGranted,
			&InsufficientLeaseError{Lease: lease, Budget: budget, Left: max(0, left)}, nil)
	}
	return &Ticket{c: c, key: key, token: token, ends: ends}, nil
}

// departure is what becomes of an acquire whose caller leaves.
type departure uint8

const (
	leftNot    departure = iota // a verdict is there, or about to be: receive from done
	leftUnsent                  // it is certainly unsent and will not be sent
	leftSent                    // it may have been sent: abandoned
)

// leave ends the caller's interest in an acquire (§2.7). Unless it returns
// leftNot, k is not the caller's any more.
func (c *Client) leave(k *call) departure {
	for {
		switch k.state.Load() {
		case callQueued:
			if c.drop(k) {
				return leftUnsent
			}
		case callFlying:
			if s := k.session.Load(); s != nil && s.abandon(k) {
				return leftSent
			}
		default:
			return leftNot
		}
	}
}

// drop takes a queued call out of the race for a writer. It stays in the queue
// until it is met there or every other entry is like it.
func (c *Client) drop(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.state.CompareAndSwap(callQueued, callDropped) {
		return false
	}
	q := &c.queue
	q.dropped++
	if q.dropped > 16 && q.dropped*2 > q.len() {
		q.filter(func(k *call) bool {
			if k.state.Load() != callDropped {
				return true
			}
			c.free(k)
			return false
		})
	}
	return true
}

// abandon leaves a flying acquire to the session, which gives back what may
// still be granted. A session that owes nobody else an answer is closed: that
// removes the waiter at the server. It reports false when k is not in this
// session's hands any more.
func (s *session) abandon(k *call) bool {
	s.mu.Lock()
	if k.session.Load() != s || !k.state.CompareAndSwap(callFlying, callAbandoned) {
		s.mu.Unlock()
		return false
	}
	s.live--
	s.abandoned++
	s.load.Store(int32(s.live))
	ended := false
	if s.live == 0 {
		ended = s.endLocked(ending{kind: endNotNeeded, err: errAbandoned})
	} else if s.abandoned >= maxAbandoned {
		ended = s.endLocked(ending{kind: endOverdue, err: errManyLeft})
	}
	s.mu.Unlock()
	s.hangUp(ended)
	return true
}

func acquireError(key string, class Class, err, cause error) error {
	return &CallError{Op: "acquire", Key: key, Class: class, Err: err, Cause: cause}
}

// contextEnded is the error of an acquire that was certainly unsent when ctx
// ended: its deadline is a deadline of the call too (§2.1, §2.6).
func contextEnded(ctx context.Context, key string) error {
	if ctx.Err() == context.DeadlineExceeded {
		return acquireError(key, ClassNotExecuted, ErrTimeout, causeOf(ctx))
	}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return acquireError(key, ClassNotExecuted, ctx.Err(), cause)
	}
	return acquireError(key, ClassNotExecuted, ctx.Err(), nil)
}
