package bench

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// judged makes a verifier with a lease of 1 s and a wait of 2 s, and returns with
// it what it found last and since then forgot.
func judged(threads int) (v *verifier, took func() []Kind) {
	found := &violations{}
	names := newKeySet(10, 8, rand.New(rand.NewPCG(1, 2)))
	v = newVerifier(names, 10, 2*time.Second, time.Second, threads, 10, found)
	return v, func() (kinds []Kind) {
		for _, f := range found.kept {
			kinds = append(kinds, f.Kind)
		}
		found.kept, found.count = nil, nil
		return kinds
	}
}

func (v *verifier) give(key uint32, token, floor uint64, sent, received int64) int64 {
	return v.granted(&grant{key: key, owner: token, token: token, floor: floor, sent: sent, received: received})
}

func want(t *testing.T, what string, got []Kind, kinds ...Kind) {
	t.Helper()
	if len(got) != len(kinds) {
		t.Errorf("%s: %v, want %v", what, got, kinds)
		return
	}
	for i := range got {
		if got[i] != kinds[i] {
			t.Errorf("%s: %v, want %v", what, got, kinds)
		}
	}
}

// A second grant is judged by whether the first may have ended: both sides of
// the instant.
func TestVerifierOverlap(t *testing.T) {
	lease := int64(time.Second) * 999 / 1000 // less what clocks may differ by
	for _, c := range []struct {
		what     string
		released int64 // of the first grant, sent at 10 ms, received at 20 ms
		received int64 // of the second
		kinds    []Kind
	}{
		{"not released", 0, 30 * ms, []Kind{TwoHolders}},
		{"released", 25 * ms, 30 * ms, nil},
		{"released in that instant", 30 * ms, 30 * ms, nil},
		{"just before the lease can have ended", 0, 10*ms + lease - 1, []Kind{TwoHolders}},
		{"the lease may have ended", 0, 10*ms + lease, nil},
	} {
		for _, threads := range []int{1, 2} {
			v, took := judged(threads)
			v.give(3, 5, 0, 10*ms, 20*ms)
			v.give(4, 6, 0, 10*ms, 20*ms)
			if c.released != 0 {
				v.releasing(3, 5, c.released)
			}
			v.releasing(3, 4, 1) // of another token: it is nothing to this one
			v.give(3, 7, 0, 12*ms, c.received)
			want(t, c.what, took(), c.kinds...)
		}
	}
}

// A lease begins at the earliest when its acquire was sent and the one before it
// had ended.
func TestVerifierLeaseBegins(t *testing.T) {
	lease := int64(time.Second) * 999 / 1000
	for _, c := range []struct {
		what                 string
		released, sent, want int64
	}{
		{"after a release", 25 * ms, 5 * ms, 25 * ms},
		{"long after a release", 25 * ms, 500 * ms, 500 * ms},
		{"after an expiry", 0, 5 * ms, 10*ms + lease},
		{"after an expiry that was released too late", 5000 * ms, 5 * ms, 10*ms + lease},
	} {
		v, took := judged(1)
		v.give(0, 1, 0, 10*ms, 20*ms)
		if c.released != 0 {
			v.releasing(0, 1, c.released)
		}
		if got := v.give(0, 2, 0, c.sent, 6000*ms); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		want(t, c.what, took())
	}
}

func TestVerifierTokens(t *testing.T) {
	lease := int64(time.Second) * 999 / 1000
	v, took := judged(1)
	v.give(0, 5, 4, 10*ms, 20*ms)
	v.releasing(0, 5, 21*ms)
	want(t, "above the floor", took())
	v.give(1, 4, 4, 22*ms, 25*ms)
	want(t, "not above the floor, a key's first", took(), TokenNotRising)
	v.give(0, 6, 6, 22*ms, 25*ms)
	want(t, "not above the floor", took(), TokenNotRising)
	v.releasing(0, 6, 26*ms)
	v.give(0, 6, 0, 30*ms, 40*ms)
	want(t, "the key's own token again", took(), TokenRepeated)
	v.releasing(0, 6, 41*ms)
	v.give(0, 9, 0, 42*ms, 2000*ms)
	want(t, "skips are allowed", took())

	// A grant that is read late: at the instant from which its lease may have
	// ended before the other was granted, and just before it.
	v.give(0, 8, 0, 2000*ms-lease, 2100*ms)
	want(t, "read late", took())
	v.releasing(0, 9, 2200*ms)
	v.give(0, 8, 0, 2000*ms-lease+1, 2300*ms)
	want(t, "too early to be read late", took(), TokenNotRising)
}

func TestVerifierRepeats(t *testing.T) {
	v, took := judged(1)
	v.checkRepeats([]grant{{key: 1, token: 7}, {key: 2, token: 8}, {key: 1, token: 9}})
	want(t, "all different", took())
	v.checkRepeats([]grant{{key: 2, token: 7}})
	want(t, "of another round", took(), TokenRepeated)
	v.checkRepeats([]grant{{key: 3, token: 10}, {key: 4, token: 10}})
	want(t, "of the same round", took(), TokenRepeated)
	v.checkRepeats([]grant{{key: 1, token: 9}})
	want(t, "of the same key, which granted judges", took())
	v.checkRepeats([]grant{{key: 5, token: 7 + uint64(len(v.recent.cells))}})
	want(t, "in the same cell", took())
}

func TestVerifierEnds(t *testing.T) {
	lease, second := int64(time.Second)*999/1000, int64(time.Second)
	v, took := judged(1)
	v.notHeld(&ended{begun: 10 * ms, received: 10*ms + lease - 1})
	want(t, "N before the lease can have ended", took(), WrongNotHeld)
	v.notHeld(&ended{begun: 10 * ms, received: 10*ms + lease})
	want(t, "N when it may have ended", took())

	full := second + second/clockDrift + 10*ms
	v.released(&ended{granted: 20 * ms, sent: 20*ms + full})
	want(t, "R when the lease may last", took())
	v.released(&ended{granted: 20 * ms, sent: 20*ms + full + 1})
	want(t, "R when it must have ended", took(), WrongReleased)

	wait := 2 * second * 999 / 1000
	v.timedOut(1, 1, 1, 10*ms, 10*ms+wait-1)
	want(t, "T before the wait can have ended", took(), EarlyTimeout)
	v.timedOut(1, 1, 1, 10*ms, 10*ms+wait)
	want(t, "T when it may have ended", took())
}

// Of each kind some are kept, and all are counted.
func TestViolationsAreCounted(t *testing.T) {
	var found violations
	for range keptViolations + 5 {
		found.add(Violation{Kind: Lost})
	}
	found.add(Violation{Kind: Unmatched})
	if len(found.kept) != keptViolations+1 || found.count[Lost] != keptViolations+5 || found.total() != keptViolations+6 {
		t.Errorf("%d kept, %v", len(found.kept), found.count)
	}
}

// Of two attempts of one connection for a key, the one sent first is granted first.
func TestVerifierTurns(t *testing.T) {
	for _, c := range []struct {
		what         string
		first, later uint64 // owners, in the order of their grants
		kinds        []Kind
	}{
		{"in turn", 1 << slotBits, 2 << slotBits, nil},
		{"out of turn", 2 << slotBits, 1 << slotBits, []Kind{OutOfTurn}},
		{"of two connections", 2<<slotBits | 1<<(slotBits+turnBits), 1 << slotBits, nil},
	} {
		v, took := judged(1)
		v.granted(&grant{key: 1, owner: c.first, token: 1, sent: 1, received: 10})
		v.releasing(1, 1, 11)
		v.granted(&grant{key: 1, owner: c.later, token: 2, sent: 1, received: 20})
		want(t, c.what, took(), c.kinds...)
	}
}
