package client

import (
	"context"
	"errors"
	"time"
)

// Do acquires key, runs fn, and releases the key after fn has returned or
// panicked. fn's context ends with ctx, or at the lease's deadline with the
// cause ErrLeaseExpired.
//
// When the key is not granted, Do returns Acquire's error and fn has not run.
// Otherwise it returns fn's error. When fn ran and the release failed, the
// result is, or is joined with, a *ReleaseError: look for that one first,
// because the classes of an error without it say that fn has not run.
//
// The release waits for its answer for its own 5 s, also when ctx is done.
func (c *Client) Do(ctx context.Context, key string, minWorkBudget time.Duration,
	fn func(context.Context, *Ticket) error, opts ...Option) (err error) {
	t, err := c.Acquire(ctx, key, minWorkBudget, opts...)
	if err != nil {
		return err
	}
	held, cancel := t.Context(ctx)
	defer func() {
		cancel()
		released := t.Release(context.WithoutCancel(ctx))
		if released == nil {
			return
		}
		released = &ReleaseError{Err: released}
		c.log.Warn("ticketing: release failed", "key", key, "reason", released)
		if err == nil {
			err = released
		} else {
			err = errors.Join(err, released)
		}
	}()
	return fn(held, t)
}
