package client

import (
	"cmp"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// session is one connection with its reader and its writer. It begins when the
// connection is ready for requests, and is over when both goroutines are and
// everything unanswered has been handed back.
type session struct {
	c    *Client
	conn net.Conn     // what frames are written to: raw, or TLS over it
	raw  *countedConn // the transport
	addr string
	turn int    // of the route, when it was opened
	in   []byte // what was read behind the handshake

	wake chan struct{} // capacity 1: there are calls to take
	stop chan struct{} // closed when the session ends

	idle    bool         // under Client.mu: the writer waits to be woken
	woken   bool         // under Client.mu: it was woken and has not come yet
	retired atomic.Bool  // set under Client.mu: takes no more calls, ends when it owes nothing
	load    atomic.Int32 // about live, for those without the lock

	mu        sync.Mutex
	acquires  map[uint64]*call // unanswered, by owner
	releases  map[uint64]*call // unanswered, by token; several of one token are chained
	live      int              // unanswered calls somebody still wants the answer of
	abandoned int              // entries of acquires that are callAbandoned
	next      instant          // no live call is overdue before it
	proven    bool             // it has answered a request
	batch     uint64           // number of the last Write
	failed    uint64           // the Write that failed; 0: none
	sentTo    int              // of that Write, frames that begin here or later are certainly unsent
	writeErr  error            // of that Write
	end       ending           // why it ends; kind endNone while it lives
}

// endKind decides what becomes of a session's unanswered calls.
type endKind uint8

const (
	endNone       endKind = iota
	endBroken             // the connection broke: acquires are indeterminate
	endProtocol           // the server's bytes make no sense, or E about our frames: indeterminate
	endOverdue            // no verdict in time (§2.7): indeterminate
	endLost               // L: acquires are indeterminate, the leader is at addr
	endMoved              // M: certainly not executed, the leader is at addr
	endUnexecuted         // E no_leader or shutting_down: certainly not executed
	endRefused            // secret or TLS do not match: certainly not executed
	endNotNeeded          // nobody wants an answer: abandoned or retired
	endClosed             // Client.Close
)

type ending struct {
	kind endKind
	err  error
	addr string // of endMoved and endLost
}

func newSession(c *Client, addr string, raw *countedConn, conn net.Conn) *session {
	return &session{
		c: c, addr: addr, raw: raw, conn: conn,
		wake:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
		acquires: make(map[uint64]*call),
		releases: make(map[uint64]*call),
		next:     never,
	}
}

// run is the session's life, on its reader's goroutine.
func (s *session) run() {
	var writer sync.WaitGroup
	writer.Go(s.write)
	s.kill(s.read())
	writer.Wait() // how far its last Write came decides what was sent
	requeue, settled := s.finish()
	s.c.deliverAll(settled)
	s.c.sessionEnded(s, requeue)
}

// kill ends the session; the first reason counts. It does not wait, and is
// called without the session's lock.
func (s *session) kill(end ending) {
	s.mu.Lock()
	ended := s.endLocked(end)
	s.mu.Unlock()
	s.hangUp(ended)
}

// endLocked makes end the reason why the session ends, and reports whether it
// is the first. From here on no frame is encoded, so that a decision to end a
// session that owes nobody an answer holds. hangUp follows without the lock.
func (s *session) endLocked(end ending) bool {
	if s.end.kind != endNone {
		return false
	}
	s.end = end
	close(s.stop)
	return true
}

// hangUp closes the transport, not the TLS connection: that one's Close may
// wait for a blocked Write. The server is told by the end of the stream.
func (s *session) hangUp(ended bool) {
	if ended {
		s.raw.Close()
	}
}

// finish empties the session's tables. It returns the calls that may be sent
// again, in the order they were made, and those that are settled.
func (s *session) finish() (requeue, settled []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unexecuted := s.end.kind == endMoved || s.end.kind == endUnexecuted || s.end.kind == endRefused
	for _, k := range s.acquires {
		switch {
		case k.state.Load() == callAbandoned:
			s.c.free(k)
		case unexecuted || s.unsent(k):
			s.unfly(k)
			requeue = append(requeue, k)
		default:
			k.settle(verdictIndeterminate, s.end.err)
			settled = append(settled, k)
		}
	}
	for _, first := range s.releases {
		for k := first; k != nil; {
			next := k.next
			k.next = nil
			if s.end.kind == endClosed {
				k.settle(verdictIndeterminate, ErrClosed)
				settled = append(settled, k)
			} else {
				k.resent = k.resent || !unexecuted && !s.unsent(k)
				s.unfly(k)
				requeue = append(requeue, k)
			}
			k = next
		}
	}
	clear(s.acquires)
	clear(s.releases)
	s.live, s.abandoned, s.next = 0, 0, never
	s.load.Store(0)
	slices.SortStableFunc(requeue, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	return requeue, settled
}

// unsent reports whether not one byte of a flying call's frame can have left:
// the Write that carried it failed in front of it.
func (s *session) unsent(k *call) bool {
	return k.batch == s.failed && k.start >= s.sentTo
}

// unfly makes a flying call a queued one again.
func (s *session) unfly(k *call) {
	k.session.Store(nil)
	k.state.Store(callQueued)
}

// addRelease puts k in the table behind others of its token.
func (s *session) addRelease(k *call) {
	first := s.releases[k.id]
	if first == nil {
		s.releases[k.id] = k
		return
	}
	for first.next != nil {
		first = first.next
	}
	first.next = k
}

// takeRelease removes the first release of this token and key.
func (s *session) takeRelease(token uint64, key []byte) *call {
	var before *call
	for k := s.releases[token]; k != nil; before, k = k, k.next {
		if k.key != string(key) {
			continue
		}
		switch {
		case before != nil:
			before.next = k.next
		case k.next != nil:
			s.releases[token] = k.next
		default:
			delete(s.releases, token)
		}
		k.next = nil
		return k
	}
	return nil
}

// sweep ends the calls that are overdue and returns when to look again.
func (s *session) sweep(now instant) instant {
	s.mu.Lock()
	if s.next > now {
		next := s.next
		s.mu.Unlock()
		return next
	}
	var settled []*call
	end, next := ending{}, never
	for owner, k := range s.acquires {
		switch {
		case k.state.Load() != callFlying:
		case k.overdue > now || k.extend(now):
			next = min(next, k.overdue)
		default:
			delete(s.acquires, owner)
			k.settle(verdictIndeterminate, errNoVerdict)
			settled = append(settled, k)
			end = ending{kind: endOverdue, err: errNoVerdict}
		}
	}
	silent := false
	for _, first := range s.releases {
		for k := first; k != nil; {
			after := k.next
			if k.overdue > now {
				next = min(next, k.overdue)
			} else {
				s.cutRelease(k)
				k.settle(verdictIndeterminate, errNoAnswer)
				settled = append(settled, k)
				silent = true
			}
			k = after
		}
	}
	s.live -= len(settled)
	s.load.Store(int32(s.live))
	s.next = next
	if silent && s.live == 0 && end.kind == endNone {
		end = ending{kind: endOverdue, err: errNoAnswer}
	}
	ended := end.kind != endNone && s.endLocked(end)
	s.mu.Unlock()
	s.hangUp(ended)
	s.c.deliverAll(settled)
	return next
}

// extend puts an overdue acquire off, once, when the keeper is so late that the
// process must have stood still. It reports whether it did.
func (k *call) extend(now instant) bool {
	if k.extended || now.sub(k.overdue) < stallLimit {
		return false
	}
	k.extended, k.overdue = true, now.add(settleGrace)
	return true
}

// cutRelease removes this very release from its chain.
func (s *session) cutRelease(k *call) {
	if s.releases[k.id] == k {
		if k.next == nil {
			delete(s.releases, k.id)
		} else {
			s.releases[k.id] = k.next
		}
	} else {
		before := s.releases[k.id]
		for before.next != k {
			before = before.next
		}
		before.next = k.next
	}
	k.next = nil
}
