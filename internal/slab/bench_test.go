package slab

import "testing"

// BenchmarkChurn frees one of 100,000 live items and hands one out, a pair an
// operation, with the frees jumping from chunk to chunk.
func BenchmarkChurn(b *testing.B) {
	var s Slab[item]
	live := make([]uint32, 100_000)
	for n := range live {
		live[n] = s.Alloc()
	}
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		s.Free(live[at])
		live[at] = s.Alloc()
		if at += 7919; at >= len(live) {
			at -= len(live)
		}
	}
}

// BenchmarkPair is one item that comes and goes.
func BenchmarkPair(b *testing.B) {
	var s Slab[item]
	b.ReportAllocs()
	for b.Loop() {
		s.Free(s.Alloc())
	}
}

// BenchmarkLive is the cost of a walk for one live item.
func BenchmarkLive(b *testing.B) {
	var s Slab[item]
	for range 100_000 {
		s.Alloc()
	}
	from, sum := uint32(1), uint32(0)
	for b.Loop() {
		from = s.Live(from, 1, func(i uint32) { sum += i })
	}
}
