package loop

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ticketing/lease"
)

// notices tell in the log why sessions are ended: the reason and the client's
// address, never what it sent. Each reason has a throttle of its own, so that
// who is turned away for one all day does not hide what happens to others. What
// is not told is counted, here and in ticketing_connections_closed_total.
//
// All loops share them: neither many loops nor many clients make a flood.
type notices [EndReasons]struct {
	next atomic.Int64  // the instant from which on one is told again
	kept atomic.Uint64 // not told since the last one
}

// noticeLevel is how loud an end is told; false: not at all. What a client does
// of its own accord is no news, a panic has a line of its own, and that a node of
// a cluster sends clients to its leader is how they find it.
func noticeLevel(end EndReason) (slog.Level, bool) {
	switch end {
	case EndClient, EndReset, EndShuttingDown, EndPanic, EndMoved, EndLeadershipLost, EndNoLeader:
		return 0, false
	case EndBadOp, EndBadRequest, EndBadLease, EndBadKey, EndLineTooLong: // a client with a defect, or none of ours
		return slog.LevelInfo, true
	}
	return slog.LevelWarn, true
}

// allow reports whether an end is told now, and for how many it stands.
func (n *notices) allow(end EndReason, now lease.Instant) (times uint64, ok bool) {
	t := &n[end]
	next := t.next.Load()
	if int64(now) < next || !t.next.CompareAndSwap(next, int64(now)+int64(logInterval)) {
		t.kept.Add(1)
		return 0, false
	}
	return t.kept.Swap(0) + 1, true
}

// notice tells that s is ended by us, while its connection is still there.
func (l *loop) notice(s *session, end EndReason) {
	level, told := noticeLevel(end)
	if !told || !l.srv.log.Enabled(context.Background(), level) {
		return
	}
	times, ok := l.srv.notices.allow(end, l.now)
	if !ok {
		return
	}
	client := "gone"
	if !s.closed {
		client = s.conn.RemoteAddr().String()
	}
	l.srv.log.Log(context.Background(), level, "connection ended by the server", "reason", end.String(), "client", client,
		"served", time.Duration(l.now.Sub(s.accepted)).Round(time.Millisecond), "times", times)
}
