package admin

import (
	"ticketing/loop"
	"ticketing/shard"
)

// totals is a snapshot added up over all loops: the numbers that /metrics and
// /status both show, so that they cannot disagree. All count from the start of
// the process.
type totals struct {
	shard        shard.Counters
	busyInFlight uint64
	ended        [loop.EndReasons]uint64
}

func addUp(snap *loop.Snapshot) totals {
	var t totals
	for i := range snap.Loops {
		l := &snap.Loops[i]
		addCounters(&t.shard, &l.Shard)
		t.busyInFlight += l.BusyInFlight
		for reason, n := range l.Ended {
			t.ended[reason] += n
		}
	}
	if snap.TLS != nil {
		for reason, n := range snap.TLS.Ended {
			t.ended[reason] += n
		}
	}
	return t
}

func addCounters(sum, c *shard.Counters) {
	sum.Granted += c.Granted
	sum.TimedOut += c.TimedOut
	sum.Left += c.Left
	sum.Parked += c.Parked
	sum.BusyQueue += c.BusyQueue
	sum.BusyWaiters += c.BusyWaiters
	sum.BusyKeys += c.BusyKeys
	sum.BusyTokens += c.BusyTokens
	sum.Released += c.Released
	sum.NotHeld += c.NotHeld
	sum.Handovers += c.Handovers
	sum.Expiries += c.Expiries
	addHistogram(&sum.WaitNanos, &c.WaitNanos)
	addHistogram(&sum.HoldNanos, &c.HoldNanos)
}

func addHistogram(sum, h *shard.Histogram) {
	for i, n := range h.Buckets {
		sum.Buckets[i] += n
	}
	sum.SumNanos += h.SumNanos
}

// refusals returns what was refused at a limit of §7, by reason. Everything
// but connections was answered with B.
func (t *totals) refusals(snap *loop.Snapshot) map[string]uint64 {
	return map[string]uint64{
		"queue_full":         t.shard.BusyQueue,
		"waiters":            t.shard.BusyWaiters,
		"keys":               t.shard.BusyKeys,
		"tokens":             t.shard.BusyTokens,
		"acquires_in_flight": t.busyInFlight,
		"connections":        snap.Refused,
	}
}

// busy returns how many acquires were answered with B, for whatever reason.
func (t *totals) busy() uint64 {
	c := &t.shard
	return c.BusyQueue + c.BusyWaiters + c.BusyKeys + c.BusyTokens + t.busyInFlight
}

// gauge returns the row of §7 with that name, or a zero one.
func gauge(snap *loop.Snapshot, name string) loop.Gauge {
	for _, g := range snap.Gauges {
		if g.Name == name {
			return g
		}
	}
	return loop.Gauge{Name: name}
}
