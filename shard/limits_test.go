package shard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing/lease"

	"github.com/cespare/xxhash/v2"
)

// newShard returns a shard with limits so large that none is met, but for the
// ones given.
func newShard(maxWaiters, maxKeys, maxTotal int) *Shard {
	return New(Config{MaxWaiters: maxWaiters, Budgets: NewBudgets(maxKeys, maxTotal), Loops: 1}, start)
}

// attempt returns an attempt that waits for 10 s and leases for 20.
func attempt(key string) *Attempt {
	return &Attempt{Key: []byte(key), Hash: xxhash.Sum64String(key), WaitSeconds: 10, LeaseSeconds: 20}
}

// expect runs an attempt at now and returns its token.
func expect(t *testing.T, s *Shard, now lease.Instant, a *Attempt, want Outcome) uint64 {
	t.Helper()
	got, token := s.Acquire(now, a)
	if got != want {
		t.Fatalf("acquire %.8s with %d waiters, %d keys: %v, want %v", a.Key, s.Waiters(), s.Keys(), got, want)
	}
	return token
}

func releases(t *testing.T, s *Shard, now lease.Instant, key string, token uint64, want bool) {
	t.Helper()
	if got := s.Release(now, []byte(key), xxhash.Sum64String(key), token); got != want {
		t.Fatalf("release %.8s token %d: %v, want %v", key, token, got, want)
	}
}

// outcomes takes the events away and returns them as text.
func outcomes(s *Shard) string {
	var b strings.Builder
	for _, e := range s.Events() {
		fmt.Fprintf(&b, "%v %s %d;", e.Kind, s.EventKey(&e), e.Owner)
	}
	s.ClearEvents()
	return b.String()
}

func TestQueueLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 100, maxQueue} {
		s := newShard(limit, 10, 1<<20)
		token := expect(t, s, start, attempt("k"), Granted)
		for range limit {
			expect(t, s, start, attempt("k"), Parked)
		}
		expect(t, s, start, attempt("k"), BusyQueue)
		zero := attempt("k")
		zero.WaitSeconds = 0
		expect(t, s, start, zero, TimedOut) // it never queues, so no queue is full for it
		expect(t, s, start, attempt("other"), Granted)
		releases(t, s, start, "k", token, true) // the first is granted: room for one
		expect(t, s, start, attempt("k"), Parked)
		expect(t, s, start, attempt("k"), BusyQueue)
		s.Leave(start, Session{})
		checkState(t, s)
		expect(t, s, start, attempt("k"), Parked)
	}
}

// TestWaitersLimit holds that the admission of waiters in all closes at 90 %,
// opens below 75 %, and is asked after the queue's own limit.
func TestWaitersLimit(t *testing.T) {
	s := newShard(7, 10, 10)
	expect(t, s, start, attempt("a"), Granted)
	expect(t, s, start, attempt("b"), Granted)
	for n := range 7 {
		a := attempt("a")
		a.Session.Slot = uint32(n)
		expect(t, s, start, a, Parked)
	}
	expect(t, s, start, attempt("a"), BusyQueue) // 7 of 10: open
	b := attempt("b")
	b.Session.Slot = 100
	expect(t, s, start, b, Parked)
	expect(t, s, start, b, Parked) // 9 of 10: closed
	expect(t, s, start, b, BusyWaiters)
	expect(t, s, start, attempt("a"), BusyQueue) // both are reached: the key's comes first
	expect(t, s, start, attempt("c"), Granted)   // whoever need not wait is not asked
	s.Leave(start, Session{Slot: 0})
	expect(t, s, start, b, BusyWaiters) // 8
	s.Leave(start, Session{Slot: 6})    // 7
	s.Leave(start, Session{Slot: 1})    // 6
	s.Leave(start, Session{Slot: 99})   // nobody's
	expect(t, s, start, b, Parked)
	if c := s.Counters(); c.Left != 3 || c.BusyQueue != 2 || c.BusyWaiters != 2 || c.Parked != 10 {
		t.Errorf("counters: %+v", c)
	}
}

// TestKeysLimit holds that the admission of keys closes at 90 %, opens below
// 75 %, and guards new keys only.
func TestKeysLimit(t *testing.T) {
	s := newShard(5, 20, 100)
	var tokens []uint64
	name := func(n int) string { return fmt.Sprint("key ", n) }
	for n := range 18 { // 17 are 85 %, 18 are 90 %
		tokens = append(tokens, expect(t, s, start, attempt(name(n)), Granted))
	}
	expect(t, s, start, attempt("new"), BusyKeys)
	zero := attempt("new")
	zero.WaitSeconds = 0
	expect(t, s, start, zero, BusyKeys)
	expect(t, s, start, attempt(name(0)), Parked)
	releases(t, s, start, name(0), tokens[0], true) // handed over: still 18
	for n := 1; n < 4; n++ {
		releases(t, s, start, name(n), tokens[n], true)
		expect(t, s, start, attempt("new"), BusyKeys) // 17, 16, 15 are 75 %
	}
	releases(t, s, start, name(4), tokens[4], true) // 14
	expect(t, s, start, attempt("new"), Granted)
	if used := s.budgets.Keys.Used(); used != 15 {
		t.Errorf("%d keys used", used)
	}
	// A lease that ended counts until it is noticed, and a command on the key
	// notices it.
	end := start.Add(20 * time.Second)
	releases(t, s, end, name(5), tokens[5], false)
	if used := s.budgets.Keys.Used(); used != 14 {
		t.Errorf("%d keys used, not 14", used)
	}
	for n := range 4 {
		expect(t, s, end, attempt(fmt.Sprint("more ", n)), Granted)
	}
	expect(t, s, end, attempt(name(6)), BusyKeys) // 17: a key that is free again is a new one
	if used := s.budgets.Keys.Used(); used != 17 {
		t.Errorf("%d keys used, not 17", used)
	}
}

// TestLimitOfOne holds that limits of 1 admit one.
func TestLimitOfOne(t *testing.T) {
	s := newShard(1, 1, 1)
	token := expect(t, s, start, attempt("a"), Granted)
	expect(t, s, start, attempt("b"), BusyKeys)
	expect(t, s, start, attempt("a"), Parked)
	expect(t, s, start, attempt("a"), BusyQueue)
	releases(t, s, start, "a", token, true)
	expect(t, s, start, attempt("b"), BusyKeys)
	expect(t, s, start, attempt("a"), Parked)
	releases(t, s, start, "a", token+1, true)
	releases(t, s, start, "a", token+2, true)
	expect(t, s, start, attempt("b"), Granted)
}

// TestTokensRunOut holds that the server fails closed before tokens overflow:
// acquires are refused, waiters too when their turn comes, releases go on.
func TestTokensRunOut(t *testing.T) {
	s := newShard(10, 10, 10)
	s.budgets.Tokens = NewTokens(lastToken - 1)
	token := expect(t, s, start, attempt("a"), Granted)
	if token != lastToken {
		t.Fatalf("token %d", token)
	}
	expect(t, s, start, attempt("b"), BusyTokens)
	if s.Keys() != 1 || s.budgets.Keys.Used() != 1 {
		t.Fatalf("a refused attempt left %d keys, %d used", s.Keys(), s.budgets.Keys.Used())
	}
	one, two := attempt("a"), attempt("a")
	one.Owner, one.WaitSeconds, two.Owner = 1, 1, 2
	expect(t, s, start, one, Parked)
	expect(t, s, start, two, Parked)
	releases(t, s, start.Add(time.Second), "a", token, true)
	if got := outcomes(s); got != "timed_out a 1;busy_tokens a 2;" {
		t.Errorf("outcomes: %s", got)
	}
	if s.Keys() != 0 || s.Waiters() != 0 || s.Next() != lease.Never {
		t.Errorf("%d keys, %d waiters are left", s.Keys(), s.Waiters())
	}
}

// TestShardsTogether runs shards on goroutines of their own with one set of
// budgets: the limits hold between them to the last one, the admissions open
// again, and what is used adds up.
func TestShardsTogether(t *testing.T) {
	const shards, maxKeys, maxTotal = 4, 40, 40
	b := NewBudgets(maxKeys, maxTotal)
	all := make([]*Shard, shards)
	var wg sync.WaitGroup
	for n := range all {
		all[n] = New(Config{MaxWaiters: 5, Budgets: b, Loops: 1}, start)
		wg.Go(func() { storm(t, all[n], n) })
	}
	wg.Wait()
	keys, waiters := 0, 0
	var refusedKeys, refusedWaiters, granted uint64
	for _, s := range all {
		checkState(t, s)
		keys, waiters = keys+s.Keys(), waiters+s.Waiters()
		refusedKeys += s.Counters().BusyKeys
		refusedWaiters += s.Counters().BusyWaiters
		granted += s.Counters().Granted
	}
	if keys != b.Keys.Used() || waiters != b.Waiters.Used() {
		t.Errorf("%d keys, budget %d; %d waiters, budget %d", keys, b.Keys.Used(), waiters, b.Waiters.Used())
	}
	if refusedKeys == 0 || refusedWaiters == 0 || granted != b.Tokens.Last() {
		t.Errorf("%d and %d refused, %d granted, %d tokens", refusedKeys, refusedWaiters, granted, b.Tokens.Last())
	}
	for _, s := range all {
		s.Leave(start.Add(time.Hour), Session{})
		for s.Next() != lease.Never {
			s.Advance(max(start.Add(time.Hour), s.Next()))
		}
	}
	state(t, b.Keys, 0, true)
	state(t, b.Waiters, 0, true)
}

// storm makes more keys and waiters than the budgets of TestShardsTogether
// hold, and takes them down again, over and over.
func storm(t *testing.T, s *Shard, n int) {
	now := start
	held := map[string]uint64{}
	last := uint64(0)
	for i := range 5000 {
		now = now.Add(time.Millisecond)
		name := fmt.Sprint(n, "/", i*7%30)
		outcome, token := s.Acquire(now, attempt(name))
		if outcome == Granted {
			held[name] = token
		}
		for _, e := range s.Events() {
			if e.Kind == Granted {
				held[string(s.EventKey(&e))] = e.Token
				last = max(last, e.Token)
			}
		}
		s.ClearEvents()
		if token != 0 && token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = max(last, token)
		if used := s.budgets.Keys.Used(); used > 36 {
			t.Errorf("%d of 40 keys used", used)
		}
		if used := s.budgets.Waiters.Used(); used > 36 {
			t.Errorf("%d of 40 waiters used", used)
		}
		if i%50 == 49 { // let go
			for name, token := range held {
				s.Release(now, []byte(name), xxhash.Sum64String(name), token)
			}
			clear(held)
			for _, e := range s.Events() {
				if e.Kind == Granted {
					held[string(s.EventKey(&e))] = e.Token
				}
			}
			s.ClearEvents()
			if i%200 == 199 {
				s.Leave(now, Session{})
			}
		}
	}
}
