package loop

import (
	"sync"
	"testing"
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
