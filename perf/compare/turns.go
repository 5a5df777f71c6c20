package main

import (
	"fmt"
	"slices"
	"time"
)

// options are the command line and what follows from it.
type options struct {
	binary string
	quick  bool
	only   string        // the part that is measured; empty: all
	settle time.Duration // of a turn, before it is measured
	slice  time.Duration // measured
	rounds int           // turns of each server since it was started
	starts int           // how often all servers are started anew
	say    func(format string, args ...any)
}

// contestant is one of several that are measured in turns.
type contestant struct {
	id, title, short string
	open             func() (*process, load, func(), error) // and what else is to be closed

	slices  []slice
	latency histogram
	last    load // of the last start, closed
}

// compete starts all, lets each have its turns, ends all, and does so again as
// often as the options say. The order of the turns is reversed each round.
func compete(o *options, all []*contestant) error {
	for range o.starts {
		if err := competeOnce(o, all); err != nil {
			return err
		}
	}
	return nil
}

func competeOnce(o *options, all []*contestant) (err error) {
	type opened struct {
		p    *process
		l    load
		also func()
	}
	var open []opened
	defer func() {
		for _, c := range open {
			c.l.close()
			if c.also != nil {
				c.also()
			}
			if ended := c.p.stop(); ended != nil && err == nil {
				err = ended
			}
		}
	}()
	for _, c := range all {
		p, l, also, err := c.open()
		if err != nil {
			return err
		}
		open = append(open, opened{p, l, also})
		c.last = l
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	for range o.rounds {
		for _, i := range order {
			m, err := open[i].l.run(o.settle, o.slice)
			if err != nil {
				return err
			}
			all[i].slices = append(all[i].slices, m)
		}
		slices.Reverse(order)
	}
	for i, c := range all {
		c.latency.merge(open[i].l.latencies())
	}
	return nil
}

// opener starts a subject and a load on it.
func opener(o *options, s subject, w workload) func() (*process, load, func(), error) {
	return func() (*process, load, func(), error) {
		p, err := s.start(o)
		if err != nil {
			return nil, nil, nil, err
		}
		l, err := newLoad(p, s, w)
		if err != nil {
			p.stop()
			return nil, nil, nil, err
		}
		return p, l, nil, nil
	}
}

func newLoad(p *process, s subject, w workload) (load, error) {
	if s.proto == nil {
		return newEtcdLoad(p, w.connections, w.depth)
	}
	return newGenerator(p, s.proto(), w)
}

// figures are what the turns of one contestant come to.
type figures struct {
	ID        string  `json:"id"`
	Title     string  `json:"title"`
	Short     string  `json:"-"`
	CPU       spread  `json:"server_cpu_us"`           // for each pair
	Rate      spread  `json:"per_second"`              // pairs
	Generator spread  `json:"generator_cpu_us"`        // for each pair
	Ratio     spread  `json:"cpu_ratio"`               // to the contestant that all are compared with
	P50       float64 `json:"p50_us"`                  // of acquires
	P99       float64 `json:"p99_us"`                  //
	P999      float64 `json:"p999_us"`                 //
	Max       float64 `json:"max_us"`                  //
	LongTurn  float64 `json:"long_turn_us,omitempty"`  // the longest acquire of a turn, without the worst turns
	Fairness  float64 `json:"max_by_min,omitempty"`    // grants of the client with most and with fewest
	Peer      string  `json:"compared_with,omitempty"` // id
}

// figuresOf compares all with the one of that id, round by round.
func figuresOf(all []*contestant, with string) []figures {
	var base *contestant
	for _, c := range all {
		if c.id == with {
			base = c
		}
	}
	var out []figures
	for _, c := range all {
		f := figures{ID: c.id, Title: c.title, Short: c.short,
			P50: c.latency.quantile(.5), P99: c.latency.quantile(.99), P999: c.latency.quantile(.999), Max: micros(c.latency.max), LongTurn: c.longTurn()}
		f.CPU = c.each(func(_ int, m slice) float64 { return perPair(m.cpu, m) })
		f.Rate = c.each(func(_ int, m slice) float64 { return float64(m.pairs) / m.wall.Seconds() })
		f.Generator = c.each(func(_ int, m slice) float64 { return perPair(m.own, m) })
		if base != nil {
			f.Peer = with
			f.Ratio = c.each(func(i int, m slice) float64 { return perPair(m.cpu, m) / perPair(base.slices[i].cpu, base.slices[i]) })
		}
		if g, ok := c.last.(*generator); ok && g.contended > 0 {
			f.Fairness = float64(slices.Max(g.grants)) / float64(max(1, slices.Min(g.grants)))
		}
		out = append(out, f)
	}
	return out
}

// worstTurns are left out where the longest acquire is asked for: the machine has
// hiccups of its own.
const worstTurns = 4

func (c *contestant) longTurn() float64 {
	var all []int64
	for _, m := range c.slices {
		all = append(all, m.longest)
	}
	slices.Sort(all)
	return micros(all[max(0, len(all)-1-worstTurns)])
}

func (c *contestant) each(f func(int, slice) float64) spread {
	var values []float64
	for i, m := range c.slices {
		values = append(values, f(i, m))
	}
	return spreadOf(values)
}

func perPair(d time.Duration, m slice) float64 { return micros(int64(d)) / float64(m.pairs) }

// shape is connections × requests under way on each.
type shape struct {
	Connections int `json:"connections"`
	Depth       int `json:"depth"`
}

func (s shape) String() string { return fmt.Sprintf("%d×%d", s.Connections, s.Depth) }

// shapes are those of the targets.
var shapes = []shape{{16, 64}, {16, 16}, {64, 1}, {1, 1}}

// pairSection is acquire and release of keys nobody else wants, in one shape.
type pairSection struct {
	Shape   shape     `json:"shape"`
	Figures []figures `json:"figures"`
}

func measurePairs(o *options, subjects []subject, shapes []shape) (out []pairSection, err error) {
	for _, sh := range shapes {
		var all []*contestant
		for _, s := range subjects {
			w := workload{connections: sh.Connections, depth: sh.Depth, lease: 250}
			all = append(all, &contestant{id: s.id, title: s.title, short: s.short, open: opener(o, s, w)})
		}
		if err := compete(o, all); err != nil {
			return nil, fmt.Errorf("%v: %w", sh, err)
		}
		section := pairSection{sh, figuresOf(all, setDel)}
		out = append(out, section)
		o.say("%v", sh)
		for _, f := range section.Figures {
			o.say("  %-45s %8.3f µs  [%.3f %.3f]  %9.0f/s  p50 %.1f p99 %.1f p99.9 %.1f µs  ratio %.2f [%.2f %.2f]  generator %.2f µs",
				f.Title, f.CPU.Median, f.CPU.Min, f.CPU.Max, f.Rate.Median, f.P50, f.P99, f.P999, f.Ratio.Median, f.Ratio.Min, f.Ratio.Max, f.Generator.Median)
		}
	}
	return out, nil
}

// handOverSection is one way to contend for keys.
type handOverSection struct {
	Title   string    `json:"title"`
	Figures []figures `json:"figures"`
}

// measureHandOvers has many wait for few keys. A slot of BLPOP needs a connection
// of its own, so with as many waiters Redis has many more connections.
func measureHandOvers(o *options) (out []handOverSection, err error) {
	blpopSubject := subject{blpop, "Redis, BLPOP and RPUSH", "Redis BLPOP", startRedis, newBlpop}
	one := workload{connections: 64, depth: 1, wait: 255, lease: 250, contended: 1}
	many := workload{connections: 64, depth: 64, wait: 255, lease: 250, contended: 16}
	spread := many
	spread.connections, spread.depth = 64*64, 1
	few := many
	few.depth = 1
	for _, section := range []struct {
		title string
		work  map[string]workload
	}{
		{"1 key, 64 clients", map[string]workload{loops1: one, loops2: one, blpop: one}},
		{"16 keys, 256 waiters each", map[string]workload{loops1: many, loops2: many, blpop: spread, "redis-blpop-64": few}},
	} {
		var all []*contestant
		lean := blpopSubject
		lean.id, lean.title = "redis-blpop-64", "Redis, BLPOP and RPUSH, 4 waiters each"
		if len(section.work) > 3 {
			blpopSubject.title = "Redis, BLPOP and RPUSH, 4096 connections"
		}
		for _, s := range []subject{ticketing(1), ticketing(2), blpopSubject, lean} {
			if w, ok := section.work[s.id]; ok {
				all = append(all, &contestant{id: s.id, title: s.title, short: s.short, open: opener(o, s, w)})
			}
		}
		if err := compete(o, all); err != nil {
			return nil, fmt.Errorf("%s: %w", section.title, err)
		}
		h := handOverSection{section.title, figuresOf(all, blpop)}
		out = append(out, h)
		o.say("%s", h.Title)
		for _, f := range h.Figures {
			o.say("  %-45s %8.3f µs  [%.3f %.3f]  %9.0f/s  wait p50 %.0f p99 %.0f µs  ratio %.2f [%.2f %.2f]  max/min %.3f",
				f.Title, f.CPU.Median, f.CPU.Min, f.CPU.Max, f.Rate.Median, f.P50, f.P99, f.Ratio.Median, f.Ratio.Min, f.Ratio.Max, f.Fairness)
		}
	}
	return out, nil
}
