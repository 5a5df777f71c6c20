package loop

import (
	"runtime/debug"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ticketing/lease"
	"ticketing/shard"
)

// loop is one event loop with its shard. Unless a field says otherwise only
// the loop's goroutine touches it.
type loop struct {
	srv    *Server
	idx    int           // shard i belongs to loop i
	direct int           // idx: what our sessions ask of our shard is decided at once; -1 in a cluster: all goes through batches
	shard  *shard.Shard  // reached through own
	owned                // of shard and alarm
	now    lease.Instant // read once a turn

	// Sessions.
	slots     []slot
	freeSlots []uint32
	sessions  int          // live ones
	deadlines *lease.Wheel // of sessions: handshake, progress, linger, unsent replies; values are slots
	dirty     []*session   // have replies to write or an end to reach
	blocked   []*session   // wait for the release lane
	serving   *session     // whom the turn is about; closed if the turn panics

	// Requests that are parsed together.
	parsed  [parsedTogether]request
	fetched uint64 // of no meaning

	// TLS.
	clear  []byte // one record's data behind the rest of those before it
	sealed []byte // records to be written

	// Other loops.
	outboxes []*batch    // by destination; nil when there is nothing to say
	outgoing []int       // destinations with an outbox
	spare    *batch      // free list
	mail     mailbox     // any goroutine
	stalled  atomic.Bool // any goroutine: blocked is not empty

	// Control.
	engine    gnet.EventLoop
	epoll     int        // descriptor of the epoll instance, -1 when it was not found
	attention descriptor // eventfd; any goroutine may wake it
	alarm     descriptor // timerfd
	reserve   reserve    // of tails
	spec      unix.ItimerSpec
	commands  commandStack // any goroutine
	depth     int          // callbacks of gnet within callbacks
	draining  bool

	replicated *replicated // of a cluster; nil on a single node

	// Numbers that are published on request.
	ended        [EndReasons]uint64
	busyInFlight uint64
	peakKeys     int // since memory was last given back
	published    atomic.Pointer[LoopSnapshot]
	asked        atomic.Bool // any goroutine: to publish, and has not yet

	// Any goroutine: sessions placed here, for the acceptor's choice.
	placed atomic.Int64
}

// begin starts a turn: every deadline in it is judged by one reading of the
// clock. A callback that gnet makes inside another joins the turn that runs.
func (l *loop) begin(s *session) {
	l.depth++
	if l.depth == 1 {
		l.serving = s
		l.now = l.srv.clock()
	}
}

// end finishes a turn: what others sent is taken in, what was decided goes out.
func (l *loop) end() {
	if l.depth == 1 {
		l.finish()
		l.serving = nil
	}
	l.depth--
}

func (l *loop) finish() {
	defer l.guardShard()
	if l.replicated != nil {
		if l.srv.broken.Load() {
			return
		}
		l.takeConfirmed()
	}
	l.receive()
	for {
		if l.replicated != nil {
			l.decideOwn()
		}
		l.visit()
		l.deliver()
		if len(l.dirty) == 0 {
			break
		}
		l.letGo()
		l.flushDirty()
	}
	if len(l.outgoing) > 0 {
		l.sendOutboxes()
	}
	if l.replicated != nil {
		l.submit()
	}
	if l.holding || l.deadlines.Next() < l.armedFor {
		l.own()
		l.arm()
		if keys := l.shard.Keys(); keys < l.peakKeys>>1 || keys > l.peakKeys {
			l.watchMemory(keys)
		}
		l.letGo()
	}
}

// guard ends the session that a panic of ours hit, and only that. It is
// deferred at the edge of every callback.
func (l *loop) guard() {
	if r := recover(); r != nil {
		l.surviveWithout(r)
	}
}

// guardShard is guard where shards decide and what they decided is passed on. In
// a cluster a panic there ends the node (defect.go).
func (l *loop) guardShard() {
	switch r := recover(); {
	case r == nil:
	case l.replicated != nil:
		l.breakDown(r)
	default:
		l.surviveWithout(r)
	}
}

// surviveWithout closes the session that the turn is about, because of a panic.
func (l *loop) surviveWithout(r any) {
	l.leaveVisited()
	l.srv.panics.Add(1)
	l.srv.log.Error("panic while serving; closing the session", "loop", l.idx, "panic", r, "stack", string(debug.Stack()))
	if s := l.serving; s != nil && !s.closed {
		l.close(s, EndPanic)
	}
}

// arm sets the alarm for the next deadline if it is not set early enough. An
// alarm that turns out to be too early costs one empty turn and is not undone.
func (l *loop) arm() {
	l.armBy(earlier(l.shard.Next(), l.deadlines.Next()))
	l.armedFor = l.armed
}

// armBy sets the alarm to next if it is not set as early; for whoever has the
// shard.
func (l *loop) armBy(next lease.Instant) {
	if next >= l.armed {
		return
	}
	if err := l.alarm.arm(&l.spec, l.srv.monotonicBase, next); err != nil {
		l.srv.log.Error("the loop's timer cannot be set", "loop", l.idx, "error", err)
		return
	}
	l.armed = next
}

// expire does what is due: waits and leases in the shard, deadlines of sessions.
func (l *loop) expire() {
	defer l.guardShard()
	l.own().Advance(l.now)
	for {
		i, ok := l.deadlines.Expire(l.now)
		if !ok {
			return
		}
		switch s := l.slots[i&^ofUnsent].session; {
		case s == nil:
		case i&ofUnsent != 0:
			l.judgeUnsent(s)
		default:
			s.timer = 0
			l.handleDeadline(s)
		}
	}
}

// ofUnsent marks the deadlines that judgeUnsent is for; the others are their
// session's one timer.
const ofUnsent = 1 << 31

// handleDeadline acts on the deadline of s; what it means follows from its phase.
func (l *loop) handleDeadline(s *session) {
	switch {
	case s.tail != nil:
		l.continueTail(s)
	case s.phase == handshaking:
		l.close(s, EndHandshakeTimeout)
	case s.phase == open:
		l.fail(s, reasonBadRequest, EndBadRequest)
	case s.phase == failing:
		l.continueFailing(s)
	case s.phase == lingering:
		l.close(s, s.end)
	}
}

// setDeadline arms the deadline of s, replacing the one it had.
func (l *loop) setDeadline(s *session, at lease.Instant) {
	l.clearDeadline(s)
	s.timer = l.deadlines.Add(at, s.id.Slot)
}

func (l *loop) clearDeadline(s *session) {
	if s.timer != 0 {
		l.deadlines.Cancel(s.timer)
		s.timer = 0
	}
}
