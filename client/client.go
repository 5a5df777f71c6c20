package client

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Client is a connection to one Ticketing server or cluster, to be shared by
// any number of goroutines. Make one with New; it connects when it is first
// used.
type Client struct {
	cfg   Config
	log   *slog.Logger
	epoch time.Time // instant 0

	owner atomic.Uint64 // the last owner given out (§2.2)
	calls sync.Pool     // of *call; per client, so that a synctest bubble keeps its own

	next atomic.Int64  // instant at which the keeper looks next
	kick chan struct{} // capacity 1: next was lowered

	releases atomic.Int64  // releases and compensations submitted and not delivered
	drained  chan struct{} // capacity 1: releases reached 0 while closing
	comp     compensations
	counts   counters

	mu       sync.Mutex
	phase    phase
	queue    queue
	live     []*session            // open, on the target, taking calls
	all      map[*session]struct{} // live, retired and ending
	waking   int                   // writers that were woken and have not taken calls yet
	dialing  bool                  // the connector is at work
	route    route
	stop     context.CancelFunc // ends the connector and the keeper
	ctx      context.Context    // done once Close has let the releases go
	dial     chan struct{}      // capacity 1: the connector is wanted
	wg       sync.WaitGroup     // every goroutine of the client
	closing  sync.Once
	isClosed chan struct{}
}

// phase only moves forward.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseDraining       // Close was called: no new calls, compensations still go
	phaseClosed         // nothing is queued any more
)

// New checks cfg and returns a client that connects when it is first used.
// Every client must be closed: it has two goroutines of its own.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:      cfg,
		log:      cfg.Logger,
		epoch:    time.Now(),
		kick:     make(chan struct{}, 1),
		drained:  make(chan struct{}, 1),
		all:      make(map[*session]struct{}),
		dial:     make(chan struct{}, 1),
		isClosed: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.queue.next = never
	c.next.Store(int64(never))
	c.route.init(cfg.Addrs)
	c.wg.Go(c.keep)
	c.wg.Go(c.connect)
	return c, nil
}

// submit queues a call and wakes whoever is to send it. It reports false when
// the client is closed; the call is the caller's own again then.
func (c *Client) submit(k *call) bool {
	deadline := k.deadline // k is gone once it is queued
	c.mu.Lock()
	if c.phase != phaseOpen && (k.kind != kindCompensation || c.phase == phaseClosed) {
		c.mu.Unlock()
		return false
	}
	if k.kind != kindAcquire {
		c.releases.Add(1)
	}
	c.queue.push(k)
	s := c.pickLocked()
	dial := c.claimDialLocked()
	c.mu.Unlock()
	c.wake(s, dial)
	c.watch(deadline)
	return true
}

// requeue puts back calls that are certainly not executed, in their order.
func (c *Client) requeue(calls []*call) {
	if len(calls) == 0 {
		return
	}
	c.mu.Lock()
	ended := c.requeueLocked(calls)
	s, dial, next := c.pickLocked(), c.claimDialLocked(), c.queue.next
	c.mu.Unlock()
	c.wake(s, dial)
	c.watch(next)
	c.deliverAll(ended)
}

// requeueLocked is requeue for a caller that wakes and watches. It returns
// calls to deliver: those that a closing client does not send any more.
func (c *Client) requeueLocked(calls []*call) (ended []*call) {
	if c.phase == phaseOpen {
		c.queue.pushFront(calls)
		return nil
	}
	var kept []*call
	for _, k := range calls {
		switch {
		case k.kind != kindAcquire && c.phase == phaseDraining:
			kept = append(kept, k)
		case c.endClosed(k):
			ended = append(ended, k)
		}
	}
	c.queue.pushFront(kept)
	return ended
}

// endClosed ends a queued call because the client is closed; see endQueued.
func (c *Client) endClosed(k *call) bool {
	if k.kind == kindAcquire {
		return c.endQueued(k, verdictClosed, nil)
	}
	return c.endQueued(k, verdictIndeterminate, ErrClosed)
}

// endQueued ends a call that is certainly unsent and off the queue. It frees
// one whose caller has left and reports false for it; otherwise the caller
// delivers k.
func (c *Client) endQueued(k *call, v verdict, cause error) bool {
	if !k.state.CompareAndSwap(callQueued, callSettled) {
		c.free(k)
		return false
	}
	k.settle(v, cause)
	return true
}

// pickLocked chooses a writer to wake for what is queued, the one with the
// fewest unanswered calls; nil when those that are awake will do.
func (c *Client) pickLocked() *session {
	if n := c.queue.len(); n == 0 || n <= c.waking*wakeFrames {
		return nil
	}
	var best *session
	for _, s := range c.live {
		if s.idle && (best == nil || s.load.Load() < best.load.Load()) {
			best = s
		}
	}
	if best != nil {
		best.idle, best.woken = false, true
		c.waking++
	}
	return best
}

// claimDialLocked reports whether the connector is to be kicked. It is at work
// from then on.
func (c *Client) claimDialLocked() bool {
	if c.dialing || !c.wantDialLocked() {
		return false
	}
	c.dialing = true
	return true
}

// mayDialLocked reports whether another session is allowed.
func (c *Client) mayDialLocked() bool {
	return len(c.live) < c.cfg.Sessions && c.phase == phaseOpen
}

// wantDialLocked reports whether another session would help: there is none, or
// there are more unanswered calls than sessions.
func (c *Client) wantDialLocked() bool {
	if !c.mayDialLocked() {
		return false
	}
	calls := c.queue.len()
	for _, s := range c.live {
		calls += int(s.load.Load())
	}
	return calls > len(c.live)
}

// wake tells the session's writer and the connector, if any, that they are
// wanted. No lock is held.
func (c *Client) wake(s *session, dial bool) {
	if s != nil {
		s.wake <- struct{}{} // capacity 1, and only a writer that is idle is picked
	}
	if dial {
		select {
		case c.dial <- struct{}{}:
		default:
		}
	}
}

// take moves calls from the queue to the writer of s. None means: wait to be
// woken.
func (c *Client) take(s *session, batch []*call) []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awakeLocked(s)
	if !s.retired.Load() {
		batch = c.queue.take(batch, batchFrames)
		s.load.Add(int32(len(batch))) // until encode counts them: in between they are owed all the same
	}
	s.idle = len(batch) == 0
	return batch
}

// awakeLocked notes that a woken writer has come, or never will.
func (c *Client) awakeLocked(s *session) {
	if s.woken {
		s.woken = false
		c.waking--
	}
}
