package shard

import (
	"math"
	"testing"
)

func TestHistogramBounds(t *testing.T) {
	for i := range HistogramBuckets - 1 {
		bound := HistogramBound(i)
		if bound != 1<<16<<i {
			t.Errorf("bound %d is %d", i, bound)
		}
		for ns, want := range map[int64]int{int64(bound) - 1: i, int64(bound): i + 1} {
			var h Histogram
			h.observe(ns)
			if h.Buckets[want] != 1 || h.Count() != 1 || h.SumNanos != uint64(ns) {
				t.Errorf("%d ns: want it in bucket %d: %+v", ns, want, h)
			}
		}
	}
	if bound := HistogramBound(HistogramBuckets - 1); bound != 0 {
		t.Errorf("the last bucket has the bound %d", bound)
	}
}

func TestHistogramEnds(t *testing.T) {
	var h Histogram
	for _, ns := range []int64{-1, math.MinInt64, 0, 1} {
		h.observe(ns)
	}
	h.observe(math.MaxInt64)
	if h.Buckets[0] != 4 || h.Buckets[HistogramBuckets-1] != 1 || h.Count() != 5 || h.SumNanos != math.MaxInt64+1 {
		t.Errorf("%+v", h)
	}
}

func TestOutcomes(t *testing.T) {
	for o, want := range map[Outcome]struct {
		name string
		busy bool
	}{
		0: {"none", false}, Granted: {"granted", false}, TimedOut: {"timed_out", false}, Parked: {"parked", false},
		BusyQueue: {"busy_queue", true}, BusyWaiters: {"busy_waiters", true},
		BusyKeys: {"busy_keys", true}, BusyTokens: {"busy_tokens", true},
	} {
		if o.String() != want.name || o.Busy() != want.busy {
			t.Errorf("outcome %d: %v, busy %v", o, o, o.Busy())
		}
	}
	if Outcome(200).String() != "none" {
		t.Error("an unknown outcome has a name")
	}
}

func TestBadConfigPanics(t *testing.T) {
	b := NewBudgets(1, 1)
	for _, cfg := range []Config{
		{MaxWaiters: 0, Budgets: b, Loops: 1},
		{MaxWaiters: maxQueue + 1, Budgets: b, Loops: 1},
		{MaxWaiters: 1, Budgets: nil, Loops: 1},
		{MaxWaiters: 1, Budgets: b, Loops: 0},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v is accepted", cfg)
				}
			}()
			New(cfg, start)
		}()
	}
	New(Config{MaxWaiters: 1, Budgets: b, Loops: 1}, start)
	New(Config{MaxWaiters: maxQueue, Budgets: b, Loops: 1}, start)
}
