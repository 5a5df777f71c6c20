//go:build !race

package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// The limit is two allocations for an acquire and its release; the
// ticket is the only one there is.
func TestClient_4_AnAcquireAndItsReleaseAllocateATicket(t *testing.T) {
	c, err := New(Config{Addrs: []string{startYes(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pair := func(ctx context.Context, key string) {
		ticket, err := c.Acquire(ctx, key, 0, Wait(1), Lease(1))
		if err != nil {
			t.Error(err)
			return
		}
		if err := ticket.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, ctx := range map[string]context.Context{"Background": context.Background(), "cancellable": cancellable} {
		if got := testing.AllocsPerRun(1000, func() { pair(ctx, "a/key/of/usual/length") }); got > 1 {
			t.Errorf("%s: %v allocations a pair, want 1", name, got)
		}
	}

	// From many goroutines, too: one run is 64 of them with 50 pairs each. A few
	// more are the goroutines' own, and pools that a collection has emptied.
	const goroutines, pairs = 64, 50
	many := func() {
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				key := fmt.Sprint("key/", i)
				for range pairs {
					pair(cancellable, key)
				}
			})
		}
		wg.Wait()
	}
	if got := testing.AllocsPerRun(20, many) / (goroutines * pairs); got > 1.2 {
		t.Errorf("%v allocations a pair from %d goroutines, want about 1", got, goroutines)
	}
}
