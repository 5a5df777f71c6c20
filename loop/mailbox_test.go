package loop

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ticketing/shard"
)

// twoLoops are two loops that nothing drives but the caller.
func twoLoops(t testing.TB) (here, there *loop) {
	t.Helper()
	srv := &Server{cfg: Config{Loops: 2, MaxWaiters: 16}, budgets: shard.NewBudgets(1024, 1024), start: time.Now()}
	srv.loops = make([]*loop, 2)
	for i := range srv.loops {
		l, err := srv.newLoop(i)
		if err != nil {
			t.Fatal(err)
		}
		l.slots = []slot{{}} // the session that asks has ended
		t.Cleanup(func() { l.attention.close(); l.alarm.close() })
	}
	return srv.loops[0], srv.loops[1]
}

// roundTrip sends so many asks to the other loop by mail and takes their answers.
func roundTrip(t testing.TB, here, there *loop, asks int) {
	b := here.outboxFor(there.idx)
	for range asks {
		if !here.srv.budgets.Releases.TryTake() {
			t.Fatal("the lane is full")
		}
		b.releases++
		b.add(message{kind: askRelease, id: 1}, []byte("a-key-of-24-bytes-length"))
	}
	here.sendOutboxes()
	there.receive()
	here.receive()
	if b.releases != 0 || here.srv.budgets.Releases.Used() != 0 {
		t.Fatalf("%d asks are not answered", b.releases)
	}
}

// Mail allocates nothing once there is a batch.
func TestMailAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	here, there := twoLoops(t)
	for _, asks := range []int{1, 64, 512} {
		roundTrip(t, here, there, asks) // makes room
		if n := testing.AllocsPerRun(100, func() { roundTrip(t, here, there, asks) }); n != 0 {
			t.Errorf("%d asks: %v allocations", asks, n)
		}
	}
}

// BenchmarkMail is a round trip without the threads' part in it: what the wake
// costs is the eventfd's write.
func BenchmarkMail(b *testing.B) {
	for _, asks := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("asks=%d", asks), func(b *testing.B) {
			here, there := twoLoops(b)
			b.ReportAllocs()
			for b.Loop() {
				roundTrip(b, here, there, asks)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*asks), "ns/ask")
		})
	}
}

// The stack keeps each pusher's order, loses nothing, and tells exactly one
// pusher of each emptying that it was first.
func TestStack(t *testing.T) {
	const pushers, each = 4, 5000
	var s stack
	firsts := make(chan struct{}, pushers*each)
	var wg sync.WaitGroup
	homes := make([]*loop, pushers)
	for p := range pushers {
		homes[p] = &loop{idx: p}
		wg.Go(func() {
			for i := range each {
				if s.push(&batch{home: homes[p], acquires: i}) {
					firsts <- struct{}{}
				}
			}
		})
	}
	next := make([]int, pushers)
	got, takes := 0, 0
	for got < pushers*each {
		<-firsts // a wake: there is something
		list := s.takeAll()
		if list == nil {
			t.Fatal("woken for nothing")
		}
		takes++
		for b := list; b != nil; b = b.next {
			if b.acquires != next[b.home.idx] {
				t.Fatalf("batch %d of pusher %d, want %d", b.acquires, b.home.idx, next[b.home.idx])
			}
			next[b.home.idx]++
			got++
		}
	}
	wg.Wait()
	if len(firsts) != 0 || s.takeAll() != nil {
		t.Fatalf("%d wakes left", len(firsts))
	}
}

// A batch that only tells comes back empty: it does not grow from use to use.
func TestTellingBatchesComeBackEmpty(t *testing.T) {
	srv := startServer(t, nil)
	here, there := srv.loops[0], srv.loops[1]
	for range 100 {
		ask(here, func() bool {
			here.outboxFor(there.idx).add(message{kind: tellLeave, session: shard.Session{Loop: 0, Slot: 1e6}}, nil)
			return true
		})
		ask(there, func() bool { return true })
	}
	n := ask(here, func() (n int) {
		here.outboxFor(there.idx)
		for _, b := range here.outboxes {
			if b != nil {
				n += cap(b.msgs)
			}
		}
		return n
	})
	if n > 8 {
		t.Fatalf("a batch of one message has room for %d", n)
	}
}
