package main

import (
	"math/bits"
	"slices"
	"time"
)

// histogram counts durations: exact below 64 ns, then 64 steps an octave (1.6 %).
type histogram struct {
	steps [64 * 40]uint32
	n     uint64
	max   int64 // ns
}

func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	h.max = max(h.max, ns)
	i := int(ns)
	if ns >= 64 {
		octave := bits.Len64(uint64(ns)) - 7
		i = (octave+1)<<6 + int(uint64(ns)>>octave)&63
	}
	h.steps[min(i, len(h.steps)-1)]++
	h.n++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.steps {
		h.steps[i] += n
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share of q does not exceed, in µs.
func (h *histogram) quantile(q float64) float64 {
	want, sum := uint64(q*float64(h.n)), uint64(0)
	for i, n := range h.steps {
		sum += uint64(n)
		if sum > want {
			if i < 64 {
				return micros(int64(i))
			}
			octave := i>>6 - 1
			return min(micros(int64(64+i&63+1)<<octave-1), micros(h.max))
		}
	}
	return micros(h.max)
}

func micros(ns int64) float64 { return float64(ns) / float64(time.Microsecond) }

// spread is the middle of some figures with the least and the greatest.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}
