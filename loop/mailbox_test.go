package loop

import (
	"sync"
	"testing"

	"ticketing/shard"
)

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
