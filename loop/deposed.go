package loop

import (
	"time"

	"ticketing/codec"
	"ticketing/lease"
	"ticketing/shard"
)

// lostPatience is how long a session that is owed an L waits for the address of
// the new leader. An election takes less, nearly always.
const lostPatience = 2 * time.Second

// movedPatience is how long a session waits to be told where to go while no
// leader is known, before it is told just that. When the lead is handed over,
// the new leader is known within milliseconds.
const movedPatience = 150 * time.Millisecond

// What a session is told that ends because the lead is elsewhere (§9). They go
// where a reason of an E goes, and are none of codec's.
const (
	reasonMoved codec.Reason = 0xf0 + iota // M, or E no_leader while no leader is known
	reasonLost                             // L, or nothing
)

// giveUp is the first half of losing the lead, on each loop: what our shard has
// decided and the log has not confirmed goes home as lost if it may yet commit,
// and otherwise as never done; then the shard is emptied, and every loop is told.
// Asks that arrive later go home as never done.
//
// Behind the markers of all loops there can be nothing more that was lost.
func (l *loop) giveUp(d shard.Deposed) {
	l.takeConfirmed()
	r := l.replicated
	r.epoch, r.deciding, r.leader = 0, 0, d.Leader
	r.deposing = true
	var proposed uint64
	if l.idx < len(d.Proposed) {
		proposed = d.Proposed[l.idx]
	}
	turns := append(r.turns[r.head:], r.open)
	for _, t := range turns {
		maybe := t.seq != 0 && t.seq <= proposed
		for b := t.first; b != nil; {
			next := b.next
			b.next = nil
			b.unanswer(maybe)
			l.sendHome(b)
			b = next
		}
	}
	r.turns, r.head, r.open, r.read = nil, 0, heldTurn{}, false
	l.shard.Abandon(l.now)
	for dst := range l.outboxes {
		l.outboxFor(dst).add(message{kind: tellGivenUp}, nil)
	}
}

// unanswer makes the answers in b those of a lost lead. maybe says whether what
// they tell may have been committed.
func (b *batch) unanswer(maybe bool) {
	for i := range b.msgs {
		switch m := &b.msgs[i]; {
		case m.kind == none:
		case maybe && (m.kind == granted || m.kind == released):
			m.kind = lost
		default:
			m.kind = undone
		}
	}
}

// handleGivenUp takes note that another loop, or this one, has given up its
// shard. When all have, it is known of each session whether something it asked
// for may have been done, and all are told to go.
func (l *loop) handleGivenUp() {
	r := l.replicated
	r.markers++
	if r.markers < len(l.srv.loops) {
		return
	}
	r.markers, r.deposing = 0, false
	r.lostUntil = l.now.Add(lostPatience)
	for i := range l.slots {
		if s := l.slots[i].session; s != nil {
			l.dismiss(s)
		}
	}
	if l.srv.givingUp.Add(-1) == 0 {
		close(l.srv.deposed)
	}
}

// dismiss ends a session because the lead was lost. One that has not finished
// its handshake hears of it with its first request.
func (l *loop) dismiss(s *session) {
	switch s.phase {
	case open:
		l.fail(s, reasonMoved, EndMoved)
	case failing:
		l.markDirty(s)
	}
}

// claimsUndone reports whether r says that nothing unanswered was executed.
func claimsUndone(r codec.Reason) bool { return r == reasonMoved || r == reasonShuttingDown }

// redirect is what becomes of frames while this node does not lead: the first
// request ends the session, unexecuted. What is wrong is still told as such.
func (l *loop) redirect(s *session, buf []byte) int {
	if l.replicated.deposing {
		return 0 // what the session is told is decided in a moment
	}
	var r codec.Request
	off := 0
	for off < len(buf) {
		n, reason := codec.ParseRequest(buf[off:], &r)
		switch {
		case reason != codec.ReasonNone:
			l.fail(s, reason, endOf(reason))
			return len(buf)
		case n == 0:
			return off
		case r.Op != codec.OpKeepAlive:
			l.fail(s, reasonMoved, EndMoved)
			return len(buf)
		}
		off += n
	}
	return off
}

// stopWaiting ends the patience of those who wait for a leader's address: this
// node leads now, and cannot name itself.
func (l *loop) stopWaiting() {
	for i := range l.slots {
		s := l.slots[i].session
		if s == nil || s.phase != failing {
			continue
		}
		if s.reason == reasonLost {
			s.until = l.now
		}
		l.markDirty(s)
	}
	l.replicated.lostUntil = lease.Never
}

// follow takes note of who leads, and tells those who wait for it.
func (l *loop) follow(leader string) {
	l.replicated.leader = leader
	for i := range l.slots {
		if s := l.slots[i].session; s != nil && s.phase == failing {
			l.markDirty(s)
		}
	}
}

// holdsNotice reports whether what the failing session s is to be told is not
// known yet: for the other loops have not said what was lost, or nobody knows the
// new leader. When patience is over, who is owed an L is told nothing, and others
// that there is no leader.
func (l *loop) holdsNotice(s *session) bool {
	r := l.replicated
	if r == nil || s.phase != failing || !claimsUndone(s.reason) && s.reason != reasonLost {
		return false
	}
	if !r.deposing && s.lost {
		s.reason, s.end = reasonLost, EndLeadershipLost
	}
	unknown := r.leader == "" && (s.reason == reasonLost || s.reason == reasonMoved && r.deciding == 0)
	return (r.deposing || unknown) && l.now < l.noticeUntil(s)
}

// awaitsNotice reports whether s must not end yet, though nothing more is decided
// for it: it is to be told that the lead was lost.
func (l *loop) awaitsNotice(s *session) bool {
	return s.unserved && s.phase == open || l.holdsNotice(s)
}

// noticeUntil is how long holdsNotice may say so. The end is not polled for: who
// makes it come earlier marks the session dirty.
func (l *loop) noticeUntil(s *session) lease.Instant {
	switch {
	case l.replicated.deposing:
		return s.until
	case s.reason == reasonMoved:
		return s.until.Add(l.replicated.patience - closingTime)
	}
	return earlier(s.until, l.replicated.lostUntil)
}

// appendNotice appends what the failing session s is told: an E, or where the
// leader is. It appends nothing where that would be untrue or of no use.
func (l *loop) appendNotice(dst []byte, s *session) []byte {
	r := l.replicated
	switch {
	case r != nil && (r.deposing || l.srv.broken.Load()) && claimsUndone(s.reason):
		return dst
	case s.reason == reasonMoved && r.leader == "":
		s.end = EndNoLeader
		return codec.AppendError(dst, codec.ReasonNoLeader)
	case s.reason == reasonMoved:
		return codec.AppendMoved(dst, r.leader)
	case s.reason == reasonLost && r.leader == "":
		return dst
	case s.reason == reasonLost:
		return codec.AppendLeadershipLost(dst, r.leader)
	}
	return codec.AppendError(dst, s.reason)
}
