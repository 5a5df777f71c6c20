package main

import (
	"fmt"
	"math"
	"strconv"
)

// target is a bound that was set, and what was measured. NaN: not measured.
type target struct {
	what        string
	bound, have float64
	unit        string
	least       bool // the bound is the least there may be, not the most
}

func (t *target) met() bool {
	if t.least {
		return t.have >= t.bound
	}
	return t.have <= t.bound
}

func (t *target) verdict() string {
	switch {
	case math.IsNaN(t.have):
		return "not measured"
	case t.met():
		return fmt.Sprintf("met: %s of %s", t.text(t.have), t.text(t.bound))
	case t.bound <= 0:
		return "missed: " + t.text(t.have)
	case t.least:
		return fmt.Sprintf("missed by %.0f %%: %s of %s", 100*(1-t.have/t.bound), t.text(t.have), t.text(t.bound))
	}
	return fmt.Sprintf("missed by %.0f %%: %s of %s", 100*(t.have/t.bound-1), t.text(t.have), t.text(t.bound))
}

// text is a figure in the unit of the target.
func (t *target) text(v float64) string {
	switch t.unit {
	case "":
		return strconv.FormatFloat(v, 'f', 2, 64)
	case "×":
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	if t.unit == "/s" {
		return thousands(v) + t.unit
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " " + t.unit
}

// targetsOf compares what was measured with what is wanted of the server.
func targetsOf(r *result) (all []target) {
	add := func(what string, bound, have float64, unit string) {
		all = append(all, target{what: what, bound: bound, have: have, unit: unit})
	}
	for _, loops := range []struct {
		id, name string
		bounds   [4]float64
	}{{loops1, "", [4]float64{.40, .60, .95, .95}}, {loops2, ", LOOPS=2", [4]float64{.65, .80, 1.1, 1.3}}} {
		for i, p := range r.Pairs {
			add(fmt.Sprintf("server CPU of a pair, %v%s, by Redis SET and DEL", p.Shape, loops.name),
				loops.bounds[i], of(p.Figures, loops.id, func(f *figures) float64 { return f.Ratio.Median }), "")
		}
	}
	if len(r.Pairs) > 0 {
		p999 := func(f *figures) float64 { return f.P999 }
		add("p99.9 of an acquire at 16×64: no more than Redis'", of(r.Pairs[0].Figures, setDel, p999), of(r.Pairs[0].Figures, loops1, p999), "µs")
	}
	if len(r.HandOvers) == 2 {
		one, many := r.HandOvers[0].Figures, r.HandOvers[1].Figures
		ratio := func(f *figures) float64 { return f.Ratio.Median }
		p99 := func(f *figures) float64 { return f.P99 }
		add("server CPU of a hand-over, 1 key, 64 clients, by BLPOP", .75, of(one, loops1, ratio), "")
		add("p99 wait, 1 key, 64 clients: no more than BLPOP's", of(one, blpop, p99), of(one, loops1, p99), "µs")
		add("most grants of a client by fewest, 1 key, 64 clients", 1.05, of(one, loops1, func(f *figures) float64 { return f.Fairness }), "×")
		add("server CPU of a hand-over, 16 keys × 256 waiters, by BLPOP", .5, of(many, loops1, ratio), "")
	}
	for _, l := range r.Lateness {
		if l.ID != loops1 {
			continue
		}
		add("lateness p50, "+l.What, 500, l.P50, "µs")
		add("lateness p99, "+l.What, 1500, l.P99, "µs")
		add("never early, "+l.What+": by how much at most", 0, max(0, -l.Min), "µs")
	}
	for _, m := range r.Memory {
		bounds := map[string]float64{idleConnection: 1024, heldLock: 140, waiter: 100}
		if bound := bounds[m.Thing]; m.ID == loops1 && bound > 0 {
			add(fmt.Sprintf("memory of each %s, %d of them", m.Thing, m.Count), bound, m.Bytes, "B")
		}
	}
	for _, g := range append(append([]growth{}, r.Held...), r.Connected...) {
		if g.ID != loops1 {
			continue
		}
		first, last := g.Figures[0], g.Figures[len(g.Figures)-1]
		add(fmt.Sprintf("server CPU of a pair beside %s, by beside %s", last.Title, first.Title), 1.2, last.Ratio.Median, "")
	}
	if r.Sweep != nil && r.Sweep.With.LongTurn > 0 {
		add(fmt.Sprintf("what the sweep of %d keys adds to the longest acquire of a turn", r.Sweep.Keys), 2000, r.Sweep.With.LongTurn-r.Sweep.Without.LongTurn, "µs")
	}
	for _, b := range r.Bench {
		if b.Shape == shapes[0] {
			add("CPU of ticketing bench by the server's, "+b.Shape.String(), .5, b.Ratio, "")
		}
	}
	if r.Cluster != nil {
		all = append(all, clusterTargets(r.Cluster)...)
	}
	return all
}

func of(all []figures, id string, f func(*figures) float64) float64 {
	for i := range all {
		if all[i].ID == id {
			return f(&all[i])
		}
	}
	return math.NaN()
}
