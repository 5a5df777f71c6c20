package lease

import (
	"testing"
	"time"
)

func loaded(n int) (*Wheel, Instant) {
	w, now := NewWheel(1), Instant(1)
	for i := range n {
		w.Add(now.Add(time.Duration(i%30_000)*time.Millisecond), uint32(i))
	}
	return w, now
}

// BenchmarkAddCancel is a waiter that gets its lock: a timer set and cancelled
// among 100,000.
func BenchmarkAddCancel(b *testing.B) {
	w, now := loaded(100_000)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		w.Cancel(w.Add(now.Add(10*time.Second), 1))
	}
}

// BenchmarkAddCancelAlone is the same with no other timer: Next is found again
// each time.
func BenchmarkAddCancelAlone(b *testing.B) {
	w, now := NewWheel(1), Instant(1)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		w.Cancel(w.Add(now.Add(10*time.Second), 1))
	}
}

// BenchmarkExpire is the whole life of a timer that runs out, among 100,000: it
// is added 30 s ahead, moves once and expires.
func BenchmarkExpire(b *testing.B) {
	w, now := loaded(100_000)
	b.ReportAllocs()
	for b.Loop() {
		for {
			value, ok := w.Expire(now)
			if ok {
				w.Add(now.Add(30*time.Second), value)
				break
			}
			now = w.Next()
		}
	}
}

// BenchmarkNext is the question before every command: is there work?
func BenchmarkNext(b *testing.B) {
	w, now := loaded(100_000)
	for now >= w.Next() {
		w.Expire(now)
	}
	n := 0
	for b.Loop() {
		if now >= w.Next() {
			n++
		}
	}
	if n > 0 {
		b.Error("there is work")
	}
}

// BenchmarkLeap is an hour without a look at a wheel of one timer.
func BenchmarkLeap(b *testing.B) {
	w, now := NewWheel(1), Instant(1)
	for b.Loop() {
		w.Add(now.Add(5*time.Second), 1)
		now = now.Add(time.Hour)
		w.Expire(now)
	}
}
