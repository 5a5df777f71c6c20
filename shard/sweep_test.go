package shard

import (
	"fmt"
	"testing"
	"time"

	"ticketing/lease"
)

func nextIs(t *testing.T, s *Shard, want lease.Instant) {
	t.Helper()
	if next := s.Next(); next != want {
		t.Fatalf("Next is %v after the start, want %v", next.Sub(start), want.Sub(start))
	}
}

// TestSweepTimes holds that the sweep runs 5 s after the first key came, then
// every 5 s, and not at all without a key.
func TestSweepTimes(t *testing.T) {
	s := newShard(10, 100, 100)
	nextIs(t, s, lease.Never)
	now := start.Add(time.Hour)
	a := attempt("a")
	a.LeaseSeconds = 12
	token := expect(t, s, now, a, Granted)
	nextIs(t, s, now.Add(5*time.Second))
	expect(t, s, now.Add(time.Second), attempt("b"), Granted)
	for n := 1; n <= 4; n++ { // a's lease ends at 12 s, b's at 21
		at := now.Add(time.Duration(n) * 5 * time.Second)
		nextIs(t, s, at)
		s.Advance(at - 1)
		nextIs(t, s, at)
		if n == 3 && s.Keys() != 2 {
			t.Fatalf("%d keys before the sweep", s.Keys())
		}
		s.Advance(at)
		if want := 2 - n/3; s.Keys() != want {
			t.Fatalf("%d keys after sweep %d, want %d", s.Keys(), n, want)
		}
	}
	s.Advance(now.Add(25 * time.Second))
	nextIs(t, s, lease.Never)
	releases(t, s, now.Add(25*time.Second), "a", token, false)
	if c := s.Counters(); c.Expiries != 2 || c.HoldNanos.SumNanos != uint64(32*time.Second) {
		t.Errorf("%d expiries, held for %v", c.Expiries, time.Duration(c.HoldNanos.SumNanos))
	}
	token = expect(t, s, now.Add(26*time.Second), attempt("c"), Granted)
	nextIs(t, s, now.Add(31*time.Second))
	releases(t, s, now.Add(26*time.Second), "c", token, true)
	nextIs(t, s, lease.Never)
}

// TestSweepPieces holds that a pass over many keys is done in pieces of bounded
// work, a millisecond apart, and finds exactly those whose lease has ended.
func TestSweepPieces(t *testing.T) {
	const keys = 20_000
	s := newShard(10, 1<<20, 100)
	for n := range keys {
		a := attempt(fmt.Sprint(n))
		a.LeaseSeconds = uint8(1 + n/2%2*249)
		expect(t, s, start, a, Granted)
	}
	now, pieces := start.Add(5*time.Second), 0
	for nextIs(t, s, now); s.Next() == now; pieces++ {
		before := s.Keys()
		s.Advance(now)
		if freed := before - s.Keys(); freed >= sweepFrees+sweepStep {
			t.Fatalf("%d keys freed in one piece", freed)
		}
		if s.Next() > now.Add(sweepPause) {
			break
		}
		now = now.Add(sweepPause)
	}
	nextIs(t, s, now.Add(5*time.Second))
	if s.Keys() != keys/2 || s.budgets.Keys.Used() != keys/2 {
		t.Errorf("%d keys are left, %d used", s.Keys(), s.budgets.Keys.Used())
	}
	if pieces < keys/2/(sweepFrees+sweepStep) || pieces > keys/2/sweepFrees+keys/sweepPiece {
		t.Errorf("%d pieces", pieces)
	}
	now, pieces = now.Add(5*time.Second), 0 // nothing to free this time
	for ; s.Next() == now; pieces++ {
		s.Advance(now)
		now = now.Add(sweepPause)
	}
	if want := keys/2/sweepPiece + 1; pieces != want && pieces != want+1 || s.Keys() != keys/2 {
		t.Errorf("%d pieces, %d keys", pieces, s.Keys())
	}
	checkState(t, s)
}

// TestSweepBeginsAnew holds that a pass that was cut short because the last key
// went leaves nothing of it to the next.
func TestSweepBeginsAnew(t *testing.T) {
	const keys = 20_000
	s := newShard(10, 1<<20, 100)
	tokens := make([]uint64, keys)
	for n := range keys {
		tokens[n] = expect(t, s, start, attempt(fmt.Sprint(n)), Granted)
	}
	now := start.Add(5 * time.Second)
	s.Advance(now)
	for n := range keys {
		releases(t, s, now, fmt.Sprint(n), tokens[n], true)
	}
	nextIs(t, s, lease.Never)
	a := attempt("last")
	a.LeaseSeconds = 1
	expect(t, s, now, a, Granted)
	nextIs(t, s, now.Add(5*time.Second))
	s.Advance(s.Next())
	if s.Keys() != 0 {
		t.Errorf("%d keys after the sweep", s.Keys())
	}
}

// TestTimerOfFormerHolder holds that a lease with a queue ends when it ends,
// whatever the lease before it was: longer, shorter or equal.
func TestTimerOfFormerHolder(t *testing.T) {
	for _, leases := range [][3]uint8{{1, 5, 2}, {9, 2, 5}, {3, 3, 3}, {250, 1, 250}, {1, 250, 1}} {
		s := newShard(10, 10, 100)
		a := attempt("k")
		a.WaitSeconds = 255
		a.LeaseSeconds = leases[0]
		token := expect(t, s, start, a, Granted)
		for _, seconds := range leases[1:] {
			a.LeaseSeconds = seconds
			expect(t, s, start, a, Parked)
		}
		a.LeaseSeconds = 1
		expect(t, s, start, a, Parked)
		now := start.Add(500 * time.Millisecond)
		releases(t, s, now, "k", token, true)
		for n := 1; n < 3; n++ {
			end := now.Add(lease.Seconds(leases[n]))
			for s.Next() < end {
				now = s.Next()
				s.Advance(now)
				if len(s.Events()) != n {
					t.Fatalf("leases %v: %d grants before lease %d ended", leases, len(s.Events()), n)
				}
			}
			if s.Next() >= end.Add(tick) {
				t.Fatalf("leases %v: lease %d ends at %v, Next is %v", leases, n, end.Sub(start), s.Next().Sub(start))
			}
			now = s.Next()
			s.Advance(now)
			if len(s.Events()) != n+1 {
				t.Fatalf("leases %v: %d grants after lease %d ended", leases, len(s.Events()), n)
			}
		}
	}
}
