package loop

import (
	"runtime"
	"sync/atomic"

	"ticketing/lease"
	"ticketing/shard"
)

// A shard is served by its own loop, or by another loop that finds it free and
// has asks for it: then nobody need be woken, and nothing sent. So with several
// loops a shard is had only while it is used, and let go before the turn's
// writes, which take longest.
//
// A visitor waits for nothing while it has the shard it visits, not even for its
// own, and so cannot be part of a deadlock. It comes only when the shard's
// mailbox is empty, so that what a loop asked earlier, by mail, is never
// overtaken (§4.4).

// owned says who may touch a loop's shard and alarm.
type owned struct {
	shared   bool          // visitors come: there are several loops
	holding  bool          // we have our shard; only for the loop's own goroutine
	armedFor lease.Instant // armed as we left it; it may be earlier by now, never later
	armed    lease.Instant // what the alarm is set to; Never when it is not. For whoever has the shard
	visited  *loop         // whose shard we have; nil nearly always
	_        [64]byte      // others write below
	busy     atomic.Bool   // somebody has the shard
	_        [64]byte
}

// own returns our shard, ours until letGo.
func (l *loop) own() *shard.Shard {
	if !l.holding {
		l.await()
	}
	return l.shard
}

// spins is how often a visited shard is looked at before its loop yields: a visit
// takes a microsecond or a few, unless the visitor's thread is not running.
const spins = 256

// await takes our shard back from a visitor.
func (l *loop) await() {
	for i := 0; !l.busy.CompareAndSwap(false, true); i++ {
		if i >= spins {
			runtime.Gosched()
		}
	}
	l.holding = true
}

// letGo leaves our shard to visitors.
func (l *loop) letGo() {
	if !l.shared || !l.holding {
		return
	}
	l.arm()
	l.holding = false
	l.busy.Store(false)
}

// visit serves the outboxes whose shards are free and takes the answers in.
func (l *loop) visit() {
	if !l.shared {
		return
	}
	for i := 0; i < len(l.outgoing); {
		dst := l.outgoing[i]
		b := l.outboxes[dst]
		if b.tells || !l.enter(l.srv.loops[dst]) {
			i++
			continue
		}
		last := len(l.outgoing) - 1
		l.outgoing[i] = l.outgoing[last]
		l.outgoing = l.outgoing[:last]
		l.outboxes[dst] = nil
		asks := len(b.msgs)
		l.serveVisited(b)
		for j := asks; j < len(b.msgs); j++ {
			l.tell(&b.msgs[j], b.keyOf(&b.msgs[j]))
		}
		b.msgs = b.msgs[:asks]
		l.handleAnswers(b)
	}
}

// enter makes us the visitor of o, if nobody has its shard and no mail waits for it.
func (l *loop) enter(o *loop) bool {
	if o.busy.Load() || !o.busy.CompareAndSwap(false, true) {
		return false
	}
	if !o.mail.asked.empty() {
		o.busy.Store(false)
		return false
	}
	l.visited = o
	return true
}

// leaveVisited ends the visit.
func (l *loop) leaveVisited() {
	if o := l.visited; o != nil {
		l.visited = nil
		o.busy.Store(false)
	}
}

// serveVisited has the shard we visit serve b, and leaves. The ends of waits that
// come of it go to their loops by mail, and those of our sessions to the end of
// b: what they lead to may need our own shard.
func (l *loop) serveVisited(b *batch) {
	o := l.visited
	l.now = l.srv.clock() // not before what was done there last
	for i := range b.msgs {
		m := &b.msgs[i]
		serve(o.shard, l.now, m, b.keyOf(m))
	}
	events := o.shard.Events()
	for i := range events {
		e := &events[i]
		m := message{kind: kindOf(e.Kind), session: e.Session, id: e.Owner, token: e.Token}
		key := o.shard.EventKey(e)
		if int(e.Session.Loop) == l.idx {
			b.add(m, key)
		} else {
			l.outboxFor(int(e.Session.Loop)).tell(m, key)
		}
	}
	o.shard.ClearEvents()
	o.armBy(o.shard.Next())
	l.leaveVisited()
}
