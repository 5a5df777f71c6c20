package loop

import (
	"testing"
	"time"

	"ticketing/codec"
)

// Who asks while no leader is known is told where to go if that becomes known
// within a moment, as when the lead is handed over; and else, and not before,
// that there is none.
func TestAskedWithoutLeader(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		srv, _ := startMember(t, loops, nil)
		acquire := codec.AppendAcquire(nil, 1, 10, 30, "k")

		p := dial(t, srv)
		start := time.Now()
		p.send(acquire)
		p.wantError("no_leader")
		if d := time.Since(start); d < movedPatience {
			t.Fatalf("told after %v", d)
		}

		patientLoops(srv)
		p = dial(t, srv)
		p.send(acquire)
		eventually(t, "it has asked", func() bool {
			for _, l := range srv.loops {
				if ask(l, func() bool {
					for i := range l.slots {
						if s := l.slots[i].session; s != nil && s.reason == reasonMoved {
							return true
						}
					}
					return false
				}) {
					return true
				}
			}
			return false
		})
		srv.Follow(elsewhere)
		p.wantNotice(codec.OpMoved, elsewhere)
	})
}

// A waiter at a leader that hands the lead over is told M, though the new leader
// is known a moment later only.
func TestWaiterHearsOfTheNextLeader(t *testing.T) {
	e := newDeposing(t, 1)
	patientLoops(e.srv)
	p := e.client()
	p.acquire(1, 10, 30, e.held)
	e.turn()
	e.srv.Depose(1, e.log.proposed(""))
	settle(e.srv)
	e.srv.Follow(elsewhere)
	p.wantNotice(codec.OpMoved, elsewhere)
	e.finish()
}

// patientLoops makes every loop wait for the leader's address for as long as a
// test may take.
func patientLoops(srv *Server) {
	for _, l := range srv.loops {
		ask(l, func() bool { l.replicated.patience = closingTime; return true })
	}
}
