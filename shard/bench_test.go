package shard

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"ticketing/lease"

	"golang.org/x/sys/unix"
)

// start is the instant at which tests begin.
const start lease.Instant = 1 << 40

// bench is a shard and an attempt on a key of 24 bytes that can be made
// another's at no cost to the benchmark: nothing of it leaves the cache.
type bench struct {
	*Shard
	now     lease.Instant
	key     [24]byte
	attempt Attempt
	fetched uint64
}

func newBench() *bench {
	b := &bench{now: start}
	b.Shard = New(Config{MaxWaiters: maxQueue, Budgets: NewBudgets(1<<24, 1<<16), Loops: 1}, start)
	copy(b.key[:], "orders/customer/")
	b.attempt = Attempt{Key: b.key[:], WaitSeconds: 1, LeaseSeconds: 250}
	return b
}

// name makes the attempt and the key those of number n.
func (b *bench) name(n int) {
	binary.LittleEndian.PutUint64(b.key[16:], uint64(n))
	h := uint64(n+1) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	b.attempt.Hash = h ^ h>>32
}

// hold grants the keys from number 0 on.
func (b *bench) hold(keys int) {
	for n := range keys {
		b.name(n)
		b.Acquire(b.now, &b.attempt)
	}
}

// reportCPU adds the processor time of an operation to a benchmark's result:
// unlike ns/op, it does not count what else the machine does.
func reportCPU(b *testing.B) (report func()) {
	runtime.LockOSThread()
	used := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() {
		b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
		runtime.UnlockOSThread()
	}
}

// BenchmarkPair is an uncontended acquire and its release, on one of as many
// keys as others are held.
func BenchmarkPair(b *testing.B) {
	for _, keys := range []int{1, 1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			s := newBench()
			s.hold(keys)
			at, step := 0, min(617, keys-1) // prime: comes by every key
			b.ReportAllocs()
			b.ResetTimer()
			defer reportCPU(b)()
			for b.Loop() {
				s.now += 500
				s.name(keys + at)
				_, token := s.Acquire(s.now, &s.attempt)
				if !s.Release(s.now, s.attempt.Key, s.attempt.Hash, token) {
					b.Fatal("not released")
				}
				if at += step; at >= keys {
					at -= keys
				}
			}
		})
	}
}

// BenchmarkPipeline is what a connection with 1024 requests under way makes: 12
// acquires of keys that are anywhere, and as many releases of those of long ago;
// with and without fetching what they need together.
func BenchmarkPipeline(b *testing.B) {
	const together, under = 12, 1020
	for _, keys := range []int{1000, 100_000, 1_000_000} {
		for _, fetch := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/fetch=%v", keys, fetch), func(b *testing.B) {
				s := newBench()
				s.hold(keys)
				var names, tokens [under]int
				next, at, sum := 0, 0, uint64(0)
				each := func(f func(i int)) {
					for i := at; i < at+together; i++ {
						s.name(names[i])
						f(i)
					}
				}
				lookAhead := func(int) {
					if fetch {
						sum ^= s.Fetch(s.attempt.Hash)
					}
				}
				b.ResetTimer()
				defer reportCPU(b)()
				for b.Loop() {
					s.now += 500
					each(lookAhead)
					each(func(i int) { s.Release(s.now, s.attempt.Key, s.attempt.Hash, uint64(tokens[i])) })
					for i := at; i < at+together; i++ {
						names[i] = keys + next
						next += 617
					}
					each(lookAhead)
					each(func(i int) {
						_, token := s.Acquire(s.now, &s.attempt)
						tokens[i] = int(token)
					})
					at = (at + together) % under
				}
				s.fetched ^= sum
			})
		}
	}
}

// BenchmarkHandOver is a release that hands over to the first of 64 waiters,
// and an attempt that joins the queue.
func BenchmarkHandOver(b *testing.B) {
	s := newBench()
	s.attempt.WaitSeconds = 250
	_, token := s.Acquire(s.now, &s.attempt)
	for slot := range uint32(64) {
		s.attempt.Session.Slot = slot
		s.Acquire(s.now, &s.attempt)
	}
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		s.now += 500
		if !s.Release(s.now, s.attempt.Key, s.attempt.Hash, token) {
			b.Fatal("not released")
		}
		e := s.Events()[0]
		token, s.attempt.Session = e.Token, e.Session
		s.ClearEvents()
		s.Acquire(s.now, &s.attempt)
	}
}

// BenchmarkParkTimeout is an attempt on a held key that parks and times out.
// There are some 5000 waiters at a time, on 64 keys.
func BenchmarkParkTimeout(b *testing.B) {
	s := newBench()
	s.hold(64)
	at, ended := 0, 0
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		s.now += 200_000
		s.name(at % 64)
		s.attempt.Session.Slot = uint32(at % 1000)
		at++
		s.Acquire(s.now, &s.attempt)
		if s.now >= s.Next() {
			s.Advance(s.now)
		}
		ended += len(s.Events())
		s.ClearEvents()
	}
	b.ReportMetric(float64(ended)/float64(b.N), "outcomes/op")
}

// BenchmarkRefuse is an attempt that will not wait on a held key.
func BenchmarkRefuse(b *testing.B) {
	s := newBench()
	s.hold(1)
	s.attempt.WaitSeconds = 0
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if outcome, _ := s.Acquire(s.now, &s.attempt); outcome != TimedOut {
			b.Fatal(outcome)
		}
	}
}

// BenchmarkSweep is a piece of the sweep over a million keys: of which none has
// ended, and of which all have.
func BenchmarkSweep(b *testing.B) {
	b.Run("keeps", func(b *testing.B) {
		s := newBench()
		s.hold(1_000_000)
		b.ReportAllocs()
		b.ResetTimer()
		defer reportCPU(b)()
		for b.Loop() {
			s.sweep(s.now)
		}
	})
	b.Run("frees", func(b *testing.B) {
		s := newBench()
		end := s.now.Add(250 * time.Second)
		freed := 0
		b.ReportAllocs()
		for b.Loop() {
			if s.Keys() == 0 {
				b.StopTimer()
				s.hold(1_000_000)
				b.StartTimer()
			}
			freed -= s.Keys()
			s.sweep(end)
			freed += s.Keys()
		}
		b.ReportMetric(-float64(freed)/float64(b.N), "frees/op")
	})
}
