package client

import (
	"context"
	"sync/atomic"
)

// Release releases a key whose token was kept elsewhere: in a file, or by
// another process. It has 5 s in all, reconnects and retries included, and
// returns nil once the server has said that the token held the key and no
// longer does.
//
// It is sent even when ctx is done already: ctx only ends the waiting for the
// answer, with ErrIndeterminate. ErrNotHeld is the server's word that the token
// does not hold the key. Without an answer the result is ErrIndeterminate: the
// key is free at the end of its lease at the latest.
func (c *Client) Release(ctx context.Context, key string, token uint64) error {
	if err := checkKey(key); err != nil {
		return releaseError(key, ClassNotExecuted, err, nil)
	}
	return c.release(ctx, key, token, nil, false)
}

// release sends one release and waits for its answer or the end of ctx. The
// ticket, if any, learns the outcome in both cases. resent says that a release
// of this token may have been executed before.
func (c *Client) release(ctx context.Context, key string, token uint64, t *Ticket, resent bool) error {
	k := c.newCall(kindRelease, token, key, c.now().add(releaseLimit))
	k.ticket, k.resent = t, resent
	if !c.submit(k) {
		c.free(k)
		err := releaseError(key, ClassNotExecuted, ErrClosed, nil)
		if t != nil {
			t.reopen(err)
		}
		return err
	}
	if !k.await(ctx) {
		if k.present.CompareAndSwap(true, false) {
			return releaseError(key, ClassIndeterminate, ErrIndeterminate, causeOf(ctx))
		}
		<-k.done // the answer was quicker
	}
	err := k.releaseResult()
	c.free(k)
	return err
}

// releaseResult is what a settled release returns (§3.2).
func (k *call) releaseResult() error {
	switch k.verdict {
	case verdictReleased:
		return nil
	case verdictNotHeld:
		return &CallError{Op: "release", Key: k.key, Class: ClassNotGranted, Err: ErrNotHeld, Retried: k.resent}
	}
	return releaseError(k.key, ClassIndeterminate, ErrIndeterminate, k.cause)
}

func releaseError(key string, class Class, err, cause error) error {
	return &CallError{Op: "release", Key: key, Class: class, Err: err, Cause: cause}
}

// compensations counts the releases of grants that are not handed out (§3.3).
type compensations struct {
	kept    atomic.Int64  // queued or unanswered; at most maxCompensations
	sent    atomic.Uint64 // written at least once
	dropped atomic.Uint64 // never written: the queue was full, 5 s were over, or the client was closed
	waiting atomic.Int64  // kept, and never written
}

// compensate queues the release of a grant that is not handed out. When too
// many are under way it is dropped, visibly, and the lease returns the key.
func (c *Client) compensate(key string, token uint64) {
	if c.comp.kept.Add(1) > maxCompensations {
		c.comp.kept.Add(-1)
		c.dropCompensation(key)
		return
	}
	c.comp.waiting.Add(1)
	k := c.newCall(kindCompensation, token, key, c.now().add(releaseLimit))
	if !c.submit(k) {
		c.comp.waiting.Add(-1)
		c.comp.kept.Add(-1)
		c.free(k)
		c.dropCompensation(key)
	}
}

func (c *Client) dropCompensation(key string) {
	c.comp.dropped.Add(1)
	c.log.Warn("ticketing: a grant is not given back and ends with its lease", "key", key)
}

// sending notes that a compensation is about to be written.
func (m *compensations) sending(k *call) {
	if !k.counted {
		k.counted = true
		m.sent.Add(1)
		m.waiting.Add(-1)
	}
}

// compensationEnded notes that one was answered or given up.
func (c *Client) compensationEnded(k *call) {
	c.comp.kept.Add(-1)
	if !k.counted {
		c.comp.waiting.Add(-1)
		c.dropCompensation(k.key)
	}
}
