package shard

import (
	"sync"
	"testing"
)

func take(t *testing.T, a *Admission, n int) {
	t.Helper()
	for i := range n {
		if !a.Take() {
			t.Fatalf("refused at %d of %d, after %d", a.Used(), a.Limit(), i)
		}
	}
}

func state(t *testing.T, a *Admission, used int, open bool) {
	t.Helper()
	if a.Used() != used || a.Open() != open {
		t.Fatalf("limit %d: used %d, open %v; want %d, %v", a.Limit(), a.Used(), a.Open(), used, open)
	}
	if !open && a.Take() {
		t.Fatalf("limit %d: admitted while closed", a.Limit())
	}
	if a.Used() != used {
		t.Fatalf("limit %d: a refusal changed the use to %d", a.Limit(), a.Used())
	}
}

// TestAdmissionBounds walks up to where an admission closes and down to where
// it opens, and looks on both sides of either.
func TestAdmissionBounds(t *testing.T) {
	for _, c := range []struct {
		limit  int
		closes int // the use that is the first at 90 % or above
		opens  int // the use that is the first below 75 %, coming down
	}{
		{1, 1, 0},
		{2, 2, 1},
		{3, 3, 2},
		{4, 4, 2},
		{5, 5, 3},
		{10, 9, 7},
		{11, 10, 8},
		{100, 90, 74},
		{101, 91, 75},
		{4096, 3687, 3071},
		{16384, 14746, 12287},
		{1 << 20, 943719, 786431},
		{1 << 24, 15099495, 12582911},
	} {
		a := NewAdmission(c.limit)
		steps := min(c.closes, 3000)
		a.word.Store(uint64(c.closes-steps) << 1) // the millions below are not walked
		take(t, a, steps-1)
		state(t, a, c.closes-1, true)
		take(t, a, 1)
		state(t, a, c.closes, false)
		a.Give(c.closes - c.opens - 1)
		state(t, a, c.opens+1, false)
		a.Give(1)
		state(t, a, c.opens, true)
		if up := c.closes - c.opens; up <= 3000 {
			take(t, a, up) // without having been empty
			state(t, a, c.closes, false)
		}
		a.Give(a.Used())
		state(t, a, 0, true)
	}
}

func TestAdmissionBelowOne(t *testing.T) {
	for _, limit := range []int{0, -5} {
		a := NewAdmission(limit)
		take(t, a, 1)
		state(t, a, 1, false)
		a.Give(1)
		state(t, a, 0, true)
	}
}

func TestLane(t *testing.T) {
	for _, limit := range []int{1, 2, 512} {
		l := NewLane(limit)
		for range limit {
			if !l.TryTake() {
				t.Fatalf("limit %d: refused at %d", limit, l.Used())
			}
		}
		if l.TryTake() || l.Used() != limit || l.Limit() != limit {
			t.Fatalf("limit %d: admitted %d", limit, l.Used())
		}
		l.Give(1)
		if !l.TryTake() || l.TryTake() {
			t.Fatalf("limit %d: not one more after one was given back", limit)
		}
		l.Give(limit)
		if l.Used() != 0 {
			t.Fatalf("limit %d: %d in use in the end", limit, l.Used())
		}
	}
}

func TestTokens(t *testing.T) {
	tokens := NewTokens(0)
	for want := uint64(1); want < 100; want++ {
		if got, ok := tokens.Next(); !ok || got != want || tokens.Last() != want {
			t.Fatalf("token %d, %v, last %d; want %d", got, ok, tokens.Last(), want)
		}
	}
	tokens = NewTokens(lastToken - 1)
	if got, ok := tokens.Next(); !ok || got != lastToken {
		t.Errorf("the last token: %d, %v", got, ok)
	}
	for range 3 {
		if got, ok := tokens.Next(); ok || got != 0 {
			t.Errorf("after the last token: %d, %v", got, ok)
		}
	}
}

// TestBudgetsTogether lets goroutines take and give all at once and counts what
// they have between them.
func TestBudgetsTogether(t *testing.T) {
	const limit, workers, rounds = 100, 8, 3000
	b := NewBudgets(limit, limit)
	lane := NewLane(limit)
	var wg sync.WaitGroup
	seen := make([][]uint64, workers)
	for w := range workers {
		wg.Go(func() {
			has, inLane := 0, 0
			for i := range rounds {
				if b.Keys.Take() {
					has++
				}
				if lane.TryTake() {
					inLane++
				}
				if used := b.Keys.Used(); used > limit*9/10 {
					t.Errorf("%d of %d used", used, limit)
				}
				if used := lane.Used(); used > limit {
					t.Errorf("%d of %d in the lane", used, limit)
				}
				if i%7 == w%7 {
					b.Keys.Give(has)
					lane.Give(inLane)
					has, inLane = 0, 0
				}
				token, _ := b.Tokens.Next()
				seen[w] = append(seen[w], token)
			}
			b.Keys.Give(has)
			lane.Give(inLane)
		})
	}
	wg.Wait()
	state(t, b.Keys, 0, true)
	if lane.Used() != 0 || b.Tokens.Last() != workers*rounds {
		t.Errorf("in the end %d in the lane, last token %d", lane.Used(), b.Tokens.Last())
	}
	issued := map[uint64]bool{}
	for _, tokens := range seen {
		for i, token := range tokens {
			if i > 0 && token <= tokens[i-1] || issued[token] {
				t.Fatalf("token %d after %d", token, tokens[max(i-1, 0)])
			}
			issued[token] = true
		}
	}
}
