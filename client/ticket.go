package client

import (
	"context"
	"sync"
	"time"
)

// Ticket is a grant: whoever has it may be in the critical section until its
// Deadline, or until it is released. It is safe for concurrent use.
type Ticket struct {
	c     *Client
	key   string
	token uint64
	ends  instant

	mu     sync.Mutex
	state  ticketState
	resent bool          // a release was sent and its answer never seen
	joined chan struct{} // made by a Release that finds another under way; closed when that ends
	err    error         // of the last release that ended
}

type ticketState uint8

const (
	ticketHeld      ticketState = iota // not released, as far as known
	ticketReleasing                    // a release is under way, with or without its caller
	ticketReleased                     // the server said R. Final.
	ticketNotHeld                      // the server said N. Final.
)

// Key returns the key.
func (t *Ticket) Key() string { return t.key }

// Token returns the fencing token: at least 1, and greater than that of every
// earlier grant of the server. Give it along with every write that the key
// protects; the package documentation shows how a store rejects a stale one.
func (t *Ticket) Token() uint64 { return t.token }

// Deadline returns when the lease ends, counted from when the grant was read
// off the socket. It carries a monotonic reading: the wall clock may change.
func (t *Ticket) Deadline() time.Time { return t.c.time(t.ends) }

// Context returns a context that ends with parent, or at the lease's deadline
// with the cause ErrLeaseExpired, whichever is first. Releasing the ticket does
// not end it; call the CancelFunc when the work is done.
func (t *Ticket) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(parent, t.Deadline(), ErrLeaseExpired)
}

// Release gives the key back. See Client.Release for ctx, the 5 s and the
// errors. Once the server has said that the key is released, further calls
// return nil and send nothing. A call while another is under way waits for that
// one's result; after a release that got no answer, the next call sends another.
func (t *Ticket) Release(ctx context.Context) error {
	t.mu.Lock()
	switch t.state {
	case ticketReleased, ticketNotHeld:
		err := t.err
		t.mu.Unlock()
		return err
	case ticketReleasing:
		if t.joined == nil {
			t.joined = make(chan struct{})
		}
		joined := t.joined
		t.mu.Unlock()
		return t.join(ctx, joined)
	}
	t.state = ticketReleasing
	resent := t.resent
	t.mu.Unlock()
	return t.c.release(ctx, t.key, t.token, t, resent)
}

// join waits for the release that is under way.
func (t *Ticket) join(ctx context.Context, joined chan struct{}) error {
	select {
	case <-joined:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.err
	case <-ctx.Done():
		return releaseError(t.key, ClassIndeterminate, ErrIndeterminate, causeOf(ctx))
	}
}

// settle takes over the outcome of a release, whether its caller is still
// there or not.
func (t *Ticket) settle(k *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = k.releaseResult()
	switch k.verdict {
	case verdictReleased:
		t.state = ticketReleased
	case verdictNotHeld:
		t.state = ticketNotHeld
	default:
		t.state = ticketHeld
		t.resent = true
	}
	t.wakeJoined()
}

// reopen notes that a release was not even queued.
func (t *Ticket) reopen(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.state = err, ticketHeld
	t.wakeJoined()
}

func (t *Ticket) wakeJoined() {
	if t.joined != nil {
		close(t.joined)
		t.joined = nil
	}
}
