package loop

import (
	"ticketing/lease"
	"ticketing/shard"
)

// handleAsks serves what another loop asks of our shard and sends the answers
// home in the same batch, and takes in the ends of waits it tells us.
func (l *loop) handleAsks(b *batch) {
	decides := l.replicated == nil || l.replicated.deciding != 0
	if !decides {
		b.undo()
	}
	sh := l.own()
	for i := range b.msgs {
		m := &b.msgs[i]
		switch m.kind {
		case granted, timedOut, busy, lost:
			l.tell(m, b.keyOf(m))
			m.kind = none
		case tellGivenUp:
			l.handleGivenUp()
			m.kind = none
		default:
			serve(sh, l.now, m, b.keyOf(m))
		}
	}
	switch {
	case b.acquires+b.releases > 0 && l.replicated != nil && decides:
		l.withhold(b, b.home)
	case b.acquires+b.releases > 0:
		b.to = b.home
		l.sendHome(b)
	case b.home == l:
		l.recycle(b)
	default:
		b.giveBack()
	}
}

// undo answers what is asked of a shard that does not decide any more.
func (b *batch) undo() {
	for i := range b.msgs {
		switch m := &b.msgs[i]; m.kind {
		case askAcquire, askRelease:
			m.kind = undone
		case tellGiveBack:
			m.kind = none
		}
	}
}

// serve does what m asks of the shard sh and writes the answer over the question.
func serve(sh *shard.Shard, now lease.Instant, m *message, key []byte) {
	switch m.kind {
	case askAcquire:
		a := shard.Attempt{
			Key: key, Hash: m.hash, Owner: m.id, Session: m.session,
			WaitSeconds: m.wait, LeaseSeconds: m.lease,
		}
		outcome, token := sh.Acquire(now, &a)
		m.kind, m.token = kindOf(outcome), token
	case askRelease:
		m.kind = notHeld
		if sh.Release(now, key, m.hash, m.id) {
			m.kind = released
		}
	case tellLeave:
		sh.Leave(now, m.session)
		m.kind = none
	case tellGiveBack:
		sh.Release(now, key, m.hash, m.id)
		m.kind = none
	}
}

// kindOf is the answer that an acquire's outcome makes.
func kindOf(o shard.Outcome) kind {
	switch o {
	case shard.Granted:
		return granted
	case shard.TimedOut:
		return timedOut
	case shard.Parked:
		return parked
	}
	return busy
}

// handleAnswers takes home a batch of ours: each answer goes to its session, the
// budgets get back what the batch had taken, and the memory is used again.
func (l *loop) handleAnswers(b *batch) {
	for i := range b.msgs {
		m := &b.msgs[i]
		if m.kind == none {
			continue
		}
		if s := l.lookup(m.session); s != nil {
			s.abroad--
			if s.abroad == 0 {
				l.markDirty(s)
			}
		}
		l.tell(m, b.keyOf(m))
	}
	if b.acquires > 0 {
		l.srv.budgets.Acquires.Give(b.acquires)
	}
	if b.releases > 0 {
		l.srv.budgets.Releases.Give(b.releases)
		l.srv.wakeStalled()
	}
	l.recycle(b)
}

// tell puts an outcome into its session's batch. An outcome whose session can no
// longer hear it is dropped; a grant of that kind is given back.
func (l *loop) tell(m *message, key []byte) {
	s := l.lookup(m.session)
	if s == nil || s.saidLast() {
		if m.kind == granted {
			l.giveBack(key, m.token)
		}
		return
	}
	switch m.kind {
	case granted:
		l.replyGranted(s, m.token, m.id, key)
	case timedOut:
		l.replyTimeout(s, m.id, key)
	case busy:
		l.replyBusy(s, m.id, key)
	case released:
		l.replyReleased(s, m.id, key)
	case notHeld:
		l.replyNotHeld(s, m.id, key)
	case undone:
		s.unserved = true
	case lost:
		s.unserved, s.lost = true, true
	}
}

// deliver takes the events of our shard, the ends of waits, to their sessions:
// at once to ours, by mailbox to those of other loops.
func (l *loop) deliver() {
	if !l.holding {
		return
	}
	if l.replicated != nil {
		l.withholdEvents()
		return
	}
	for i := 0; i < len(l.shard.Events()); i++ { // replies may add events
		e := &l.shard.Events()[i]
		m := message{kind: kindOf(e.Kind), session: e.Session, id: e.Owner, token: e.Token}
		key := l.shard.EventKey(e)
		if int(e.Session.Loop) == l.idx {
			l.tell(&m, key)
		} else {
			l.outboxFor(int(e.Session.Loop)).tell(m, key)
		}
	}
	l.shard.ClearEvents()
}
