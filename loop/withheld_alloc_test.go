package loop

import (
	"fmt"
	"runtime"
	"testing"

	"ticketing/shard"
)

// instant is a log that agrees at once.
type instant struct{ srv *Server }

func (r *instant) Submit(t shard.Turn) { r.srv.Confirm(t.Loop, t.Seq) }

func startInstant(t testing.TB, loops int) *Server {
	t.Helper()
	r := &instant{}
	r.srv = startServer(t, func(c *Config) { c.Loops, c.MaxKeys, c.Replica = loops, ClusterMaxKeys, r })
	lead(t, r.srv, 1, 0)
	return r.srv
}

// A loop of a cluster uses the memory of turns, batches and records again: steady
// state allocates nothing of ours there either.
func TestWithheldAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, loops := range []int{1, 2} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			srv := startInstant(t, loops)
			d := newDriver(t, srv, 64)
			if n := mallocs(func() { d.pairs(t) }) / 64; n > 0.01 {
				t.Errorf("%.3f allocations a pair", n)
			}
		})
	}
}

// The client is one more than the loops: without a processor of its own it waits
// until the runtime takes one from a loop that sleeps.
func BenchmarkPairsWithheld(b *testing.B) {
	for _, loops := range []int{1, 2} {
		for _, depth := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("loops=%d/depth=%d", loops, depth), func(b *testing.B) {
				before := runtime.GOMAXPROCS(0)
				defer runtime.GOMAXPROCS(before)
				runtime.GOMAXPROCS(max(before, loops+1))
				d := newDriver(b, startInstant(b, loops), depth)
				b.ReportAllocs()
				for b.Loop() {
					d.pairs(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/pair")
			})
		}
	}
}
