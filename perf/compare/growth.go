package main

import (
	"fmt"
	"strconv"
	"time"
)

// growth is the cost of a pair beside more and more of something.
type growth struct {
	ID      string    `json:"id"` // of the subject
	Title   string    `json:"title"`
	Levels  []int     `json:"levels"`
	Figures []figures `json:"figures"` // for each level, compared with the first
}

// The load beside which things grow.
var growthLoad = workload{connections: 16, depth: 64, lease: 250}

func growthSubjects(settings ...string) []subject {
	all, _ := installed([]subject{ticketing(1, settings...), {setDel, "Redis, SET NX PX and DEL", "Redis", startRedis, newSetDel}})
	return all
}

// measureHeld measures pairs beside 1,000 to 1,000,000 keys that others hold.
func measureHeld(o *options) ([]growth, error) {
	levels := []int{1000, 100_000, 1_000_000}
	if o.quick {
		levels = []int{1000, 100_000}
	}
	return grow(o, "keys held", growthSubjects("MAX_KEYS=4000000"), levels, func(p *process, s subject, n int) (func(), error) {
		g, err := newGenerator(p, s.proto(), workload{connections: 16, depth: 64, task: filling, lease: 250, fill: n})
		if err != nil {
			return nil, err
		}
		defer g.close() // what is held stays held
		return nil, g.hold()
	})
}

// measureConnected measures pairs of 16 connections beside others that are idle.
func measureConnected(o *options) ([]growth, error) {
	levels := []int{16, 1000, 8000}
	if o.quick {
		levels = []int{16, 1000}
	}
	return grow(o, "connections", growthSubjects("MAX_CONNECTIONS=8192"), levels, func(p *process, _ subject, n int) (func(), error) {
		fds, err := dialMore(nil, n-growthLoad.connections, p.addr)
		return func() { hangUp(fds) }, err
	})
}

// grow has a server for each level, all driven in turns.
func grow(o *options, what string, subjects []subject, levels []int, fill func(*process, subject, int) (func(), error)) (out []growth, err error) {
	for _, s := range subjects {
		var all []*contestant
		for _, n := range levels {
			all = append(all, &contestant{id: strconv.Itoa(n), title: fmt.Sprint(n, " ", what), open: func() (*process, load, func(), error) {
				p, err := s.start(o)
				if err != nil {
					return nil, nil, nil, err
				}
				also, err := fill(p, s, n)
				if err == nil {
					var l load
					if l, err = newLoad(p, s, growthLoad); err == nil {
						return p, l, also, nil
					}
				}
				p.stop()
				return nil, nil, nil, err
			}})
		}
		if err := compete(o, all); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		g := growth{s.id, s.title, levels, figuresOf(all, strconv.Itoa(levels[0]))}
		out = append(out, g)
		for _, f := range g.Figures {
			o.say("%-30s beside %-20s %7.3f µs a pair  ratio %.3f [%.3f %.3f]", g.Title, f.Title, f.CPU.Median, f.Ratio.Median, f.Ratio.Min, f.Ratio.Max)
		}
	}
	return out, nil
}

// sweepSection is the latency of acquires while expired keys are swept, and of a
// server without any in the same time.
type sweepSection struct {
	Keys    int     `json:"keys"`
	With    figures `json:"with"`
	Without figures `json:"without"`
	Left    int     `json:"left"` // keys at the end
}

// measureSweep lets the leases of very many keys end that nobody waits for, and
// measures all the while until they are gone. The turns are short, so that both
// servers feel what else happens on the machine.
func measureSweep(o *options) (*sweepSection, error) {
	const sweepEvery, sweepTime = 5 * time.Second, 3 * time.Second
	out, leaseSeconds := &sweepSection{Keys: 1_000_000}, 8 // time to take them all
	if o.quick {
		out.Keys, leaseSeconds = 50_000, 1
	}
	s := ticketing(1, "MAX_KEYS=4000000")
	quiet := *o
	quiet.starts, quiet.settle, quiet.slice = 1, 2*time.Millisecond, 48*time.Millisecond
	quiet.rounds = int((time.Duration(leaseSeconds)*time.Second + sweepEvery + sweepTime) / (2 * (quiet.settle + quiet.slice)))
	probe := workload{connections: 16, depth: 1, lease: 250}
	var swept *process
	all := []*contestant{
		{id: "with", title: fmt.Sprint(out.Keys, " expired keys"), open: func() (*process, load, func(), error) {
			p, err := s.start(o)
			if err != nil {
				return nil, nil, nil, err
			}
			swept = p
			g, err := newGenerator(p, s.proto(), workload{connections: 16, depth: 64, task: filling, lease: uint8(leaseSeconds), fill: out.Keys})
			if err == nil {
				err = g.hold()
				g.close()
			}
			if err != nil {
				p.stop()
				return nil, nil, nil, err
			}
			l, err := newLoad(p, s, probe)
			return p, l, func() { out.Left, _, _ = population(swept) }, err
		}},
		{id: "without", title: "no expired keys", open: opener(o, s, probe)},
	}
	if err := compete(&quiet, all); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	f := figuresOf(all, "without")
	out.With, out.Without = f[0], f[1]
	if out.Left > probe.connections*probe.depth {
		return nil, fmt.Errorf("sweep: %d of %d keys are left; it was not measured", out.Left, out.Keys)
	}
	o.say("sweep of %d keys: with p99.9 %.0f, of a turn %.0f, max %.0f µs, without %.0f, %.0f, %.0f µs", out.Keys,
		out.With.P999, out.With.LongTurn, out.With.Max, out.Without.P999, out.Without.LongTurn, out.Without.Max)
	return out, nil
}
