package shard

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"ticketing/lease"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// reportCPU adds the processor time an operation takes to a benchmark's result:
// unlike ns/op, it does not count what else the machine does. Call it before
// the loop, and its result behind it.
func reportCPU(b *testing.B) func() {
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

// start is the instant at which tests begin.
const start lease.Instant = 1 << 40

// benchKeys returns n keys of 24 bytes with their hashes.
func benchKeys(n int) (keys [][]byte, hashes []uint64) {
	for i := range n {
		key := fmt.Appendf(nil, "orders/customer/%08d", i)
		keys = append(keys, key)
		hashes = append(hashes, xxhash.Sum64(key))
	}
	return keys, hashes
}

// BenchmarkPair is an uncontended acquire and its release, on one key of n
// after another. With held, n other keys are held all the while.
func BenchmarkPair(b *testing.B) {
	for _, held := range []bool{false, true} {
		for _, n := range []int{1, 1000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("held=%v/keys=%d", held, n), func(b *testing.B) {
				s := New(Config{MaxWaiters: 2048, Budgets: NewBudgets(1<<24, 16384), Loops: 1}, start)
				keys, hashes := benchKeys(n)
				if held {
					var key [24]byte
					for i := range n {
						binary.LittleEndian.PutUint64(key[:], uint64(i))
						s.Acquire(start, &Attempt{Key: key[:], Hash: xxhash.Sum64(key[:]), LeaseSeconds: 250})
					}
				}
				a := Attempt{LeaseSeconds: 30, WaitSeconds: 10}
				now, at := start, 0
				b.ReportAllocs()
				b.ResetTimer()
				defer reportCPU(b)()
				for b.Loop() {
					now += 500
					a.Key, a.Hash = keys[at], hashes[at]
					_, token := s.Acquire(now, &a)
					if !s.Release(now+200, keys[at], hashes[at], token) {
						b.Fatal("not released")
					}
					if at += 7919; at >= n {
						at %= n
					}
				}
			})
		}
	}
}

// BenchmarkHandOver is a release that hands over, and the attempt of the former
// holder that joins the queue of 64 again.
func BenchmarkHandOver(b *testing.B) {
	s := New(Config{MaxWaiters: 2048, Budgets: NewBudgets(1<<20, 16384), Loops: 1}, start)
	keys, hashes := benchKeys(1)
	a := Attempt{Key: keys[0], Hash: hashes[0], LeaseSeconds: 30, WaitSeconds: 10}
	now := start
	_, token := s.Acquire(now, &a)
	for i := range 64 {
		a.Session.Slot = uint32(i)
		s.Acquire(now, &a)
	}
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		now += 500
		if !s.Release(now, a.Key, a.Hash, token) {
			b.Fatal("not released")
		}
		e := s.Events()[0]
		token, a.Session = e.Token, e.Session
		s.ClearEvents()
		s.Acquire(now, &a)
	}
}

// BenchmarkParkTimeout is an attempt on a held key that parks and times out.
func BenchmarkParkTimeout(b *testing.B) {
	s := New(Config{MaxWaiters: 16384, Budgets: NewBudgets(1<<20, 65536), Loops: 1}, start)
	keys, hashes := benchKeys(64)
	now := start
	a := Attempt{LeaseSeconds: 250, WaitSeconds: 1}
	at, ended := 0, 0
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		now += 200_000 // some 5000 waiters at a time
		a.Key, a.Hash = keys[at], hashes[at]
		at = (at + 1) % len(keys)
		a.Session.Slot = uint32(at)
		s.Acquire(now, &a)
		if now >= s.Next() {
			s.Advance(now)
		}
		ended += len(s.Events())
		s.ClearEvents()
	}
	b.ReportMetric(float64(ended)/float64(b.N), "outcomes/op")
}

// BenchmarkSweep is a piece of the sweep over a million keys of which none has
// ended.
func BenchmarkSweep(b *testing.B) {
	s := New(Config{MaxWaiters: 2048, Budgets: NewBudgets(1<<24, 16384), Loops: 1}, start)
	keys, hashes := benchKeys(1_000_000)
	for i := range keys {
		s.Acquire(start, &Attempt{Key: keys[i], Hash: hashes[i], LeaseSeconds: 250})
	}
	b.Run("piece", func(b *testing.B) {
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			s.sweep(start)
		}
	})
	b.Run("frees", func(b *testing.B) {
		end := start.Add(250 * time.Second)
		freed := 0
		for b.Loop() {
			before := s.Keys()
			s.sweep(end)
			freed += before - s.Keys()
			if s.Keys() == 0 {
				b.StopTimer()
				for i := range keys {
					s.Acquire(start, &Attempt{Key: keys[i], Hash: hashes[i], LeaseSeconds: 250})
				}
				b.StartTimer()
			}
		}
		b.ReportMetric(float64(freed)/float64(b.N), "frees/op")
	})
}
