package loop

import (
	"testing"
	"time"

	"ticketing/codec"
)

// A lease starts when its grant is known to be committed. The turn that takes
// note of it may have begun before that: its own reading of the clock is too old.
func TestLeaseStartsAfterTheCommit(t *testing.T) {
	srv, log := startLeader(t, 1, nil)
	l := srv.loops[0]
	p, q := dial(t, srv), dial(t, srv)
	const leaseSeconds, late = 200, 150 * time.Second
	p.acquire(1, 0, leaseSeconds, "k")
	turn := log.await(l, 1)
	ask(l, func() bool { // in a turn that has read the clock
		srv.ahead.Add(int64(late))
		srv.Confirm(0, turn.Seq)
		return true
	})
	p.want(codec.OpGranted)
	log.confirmAll()
	srv.ahead.Add(int64(late)) // 300 s after the turn began, 150 s after the commit
	q.acquire(2, 0, 1, "k")
	q.want(codec.OpTimeout)
	srv.ahead.Add(int64(late))
	q.acquire(3, 0, 1, "k")
	q.want(codec.OpGranted)
}
