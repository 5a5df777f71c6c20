package client

import (
	"context"
	"sync/atomic"
)

// callKind is what a call sends.
type callKind uint8

const (
	kindAcquire callKind = iota
	kindRelease
	// kindCompensation is a release that nobody asked for: it gives back a
	// grant that is not handed out (§2.7, §2.8, §2.10). Nobody waits for it.
	kindCompensation
)

// callState says who owns a call and what may happen to it. The package
// comment draws the diagram.
type callState = uint32

const (
	// callQueued: in the local queue, or in the hands of a writer that has not
	// encoded it: certainly unsent. Left to callFlying by the writer, under
	// the session's lock; to callDropped by the caller; to callSettled by
	// whoever ends it unsent.
	callQueued callState = iota
	// callFlying: in a session's table; a byte of it may have left. Left only
	// under the session's lock: to callSettled by a verdict, to callAbandoned
	// by the caller, to callQueued when it is certain that it was not executed.
	callFlying
	// callSettled: the verdict stands in the call. The caller owns it once it
	// has received from done; of a release nobody waits for, the settler does.
	callSettled
	// callAbandoned: an acquire whose caller left while it was flying. The
	// session owns it until an answer comes or the session ends.
	callAbandoned
	// callDropped: its caller left while it was queued. Whoever takes it off
	// the queue owns it.
	callDropped
)

// verdict is how a call ended.
type verdict uint8

const (
	verdictNone          verdict = iota
	verdictGranted               // A: token and at are set
	verdictTimeout               // T
	verdictBusy                  // B
	verdictReleased              // R
	verdictNotHeld               // N
	verdictUnsent                // the deadline came first: certainly unsent; cause when no session could be had
	verdictUnavailable           // every server refuses this client: certainly not executed; cause is set
	verdictClosed                // Client.Close: certainly unsent
	verdictIndeterminate         // cause says why
)

// call is one acquire or release on its way. Calls are pooled; state says who
// owns one.
type call struct {
	kind      callKind
	lease     uint8  // seconds; acquires only
	immediate bool   // an acquire with wait 0
	resent    bool   // a release of which a byte may have left on an earlier session
	counted   bool   // a compensation that is in Stats.CompensationsSent
	extended  bool   // overdue was put off once, after a stall
	id        uint64 // owner of an acquire, token of a release
	key       string
	deadline  instant // §2.1, §3.1
	overdue   instant // flying: when it ends without a verdict (§2.7); a release: deadline
	ticket    *Ticket // a release of this ticket; nil otherwise

	state   atomic.Uint32
	session atomic.Pointer[session] // set while flying; changes only under that session's lock
	batch   uint64                  // which Write of the session carries it
	start   int                     // where in that Write its frame begins
	next    *call                   // in the session's table: another release of the same token

	// present: a caller waits for a release. Whoever swaps it to false, the
	// caller that leaves or the settler, decides who frees the call.
	present atomic.Bool
	done    chan struct{} // capacity 1, one signal per use

	// Written by the settler before done.
	verdict verdict
	token   uint64
	at      instant // when A was read off the socket
	cause   error
}

// newCall returns a call that is queued for its caller.
func (c *Client) newCall(kind callKind, id uint64, key string, deadline instant) *call {
	k, ok := c.calls.Get().(*call)
	if !ok {
		k = &call{done: make(chan struct{}, 1)}
	}
	k.kind, k.id, k.key, k.deadline = kind, id, key, deadline
	k.state.Store(callQueued)
	k.present.Store(kind != kindCompensation)
	return k
}

// free gives back a call that nobody else knows any more.
func (c *Client) free(k *call) {
	k.kind, k.lease, k.immediate, k.resent, k.counted, k.extended = kindAcquire, 0, false, false, false, false
	k.key, k.ticket, k.next, k.cause = "", nil, nil, nil
	k.session.Store(nil)
	k.verdict, k.token, k.at, k.overdue, k.batch, k.start = verdictNone, 0, 0, 0, 0, 0
	c.calls.Put(k)
}

// await waits for the verdict, or for the end of ctx, which it reports by false.
func (k *call) await(ctx context.Context) bool {
	ended := ctx.Done()
	if ended == nil { // a select costs as much again as the rest of the wait
		<-k.done
		return true
	}
	select {
	case <-k.done:
		return true
	case <-ended:
		return false
	}
}

// settle writes a verdict that is not a grant. The caller has moved k to
// callSettled, or is about to, and calls deliver once it holds no lock.
func (k *call) settle(v verdict, cause error) {
	k.verdict, k.cause = v, cause
	k.state.Store(callSettled)
}

// deliver hands a settled call to whoever waits for it. No lock is held.
func (c *Client) deliver(k *call) {
	if k.kind == kindAcquire {
		k.done <- struct{}{}
		return
	}
	if k.kind == kindCompensation {
		c.compensationEnded(k)
	} else if k.ticket != nil {
		k.ticket.settle(k)
	}
	waits := k.present.CompareAndSwap(true, false)
	if waits {
		k.done <- struct{}{}
	} else {
		c.free(k)
	}
	if c.releases.Add(-1) == 0 {
		c.releasesAnswered()
	}
}

func (c *Client) deliverAll(calls []*call) {
	for _, k := range calls {
		c.deliver(k)
	}
}
