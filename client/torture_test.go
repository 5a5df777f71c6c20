package client_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

var tortureSeed = flag.Uint64("torture.seed", 0, "run TestTorture with this seed alone")

// TestTorture is a server that keeps its locks honestly and its connections
// badly: it cuts, stalls, stays silent, moves its clients on and sends what
// nobody asked for. Whatever it does, these hold: every call ends in time;
// tickets of one key do not overlap, and their tokens rise; what was certainly
// not executed, or not granted, was not; and in the end nothing is left over.
func TestTorture(t *testing.T) {
	if *tortureSeed != 0 {
		torture(t, *tortureSeed)
		return
	}
	n := 25
	if testing.Short() {
		n = 10
	}
	for range n {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { torture(t, seed) }) {
			t.Fatalf("again: go test ./client -run TestTorture -torture.seed=%d", seed)
		}
	}
}

// badScript is the orders of one connection: honest for a while, then not.
func badScript(rng *rand.Rand) []scripted.Order {
	honest := scripted.Honest()
	var orders []scripted.Order
	for range rng.IntN(4) {
		for range rng.IntN(20) {
			orders = append(orders, honest)
		}
		bad := []scripted.Order{
			scripted.Silent(),
			scripted.CutBefore(),
			scripted.CutInside(1 + rng.IntN(12)),
			scripted.CutAfter(),
			scripted.Then(honest, scripted.CutAfter()),
			scripted.CutReply(rng.IntN(20), honest),
			scripted.After(time.Duration(rng.IntN(4000))*ms, honest),
			scripted.Unasked(codec.AppendGranted(nil, 1<<40, 1<<50, "x"), honest),
			scripted.Unasked(codec.AppendReleased(nil, 1<<40, "x"), honest),
			scripted.Moved("b:1"), scripted.Moved("a:1"),
			scripted.LeadershipLost("b:1"), scripted.LeadershipLost("a:1"),
			scripted.Error("no_leader"), scripted.Error("shutting_down"), scripted.Error("bad_key"),
			scripted.Stall(rng.IntN(5)),
		}
		orders = append(orders, bad[rng.IntN(len(bad))])
	}
	return orders
}

// holds are the tickets of all callers and their time in the critical section.
type holds struct {
	mu  sync.Mutex
	all []hold
}

type hold struct {
	key       string
	token     uint64
	from, end time.Duration
}

func torture(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	bubble(t, func(cfg *client.Config) {
		cfg.Sessions = 1 + rng.IntN(3)
		cfg.Addrs = []string{"a:1", "b:1"}[:1+rng.IntN(2)]
	}, func(r *rig) {
		for range 200 {
			r.srv.Script(badScript(rng)...)
		}
		r.addresses["b:1"] = r.srv // one table of locks
		var wg sync.WaitGroup
		var seen holds
		for i := range 40 {
			own := rand.New(rand.NewPCG(seed, uint64(i+1)))
			wg.Go(func() {
				for n := range 10 {
					tortureOnce(r, own, fmt.Sprintf("own/%d/%d", i, n), &seen)
				}
			})
		}
		wg.Wait()
		r.at(r.since() + 20*sec)
		if st := r.c.Stats(); st.InFlight != 0 || st.Queued != 0 || st.CompensationsQueued != 0 {
			t.Errorf("left over: %+v", st)
		}
		seen.check(t)
	})
}

// tortureOnce is one call of one caller.
func tortureOnce(r *rig, rng *rand.Rand, ownKey string, seen *holds) {
	key := []string{"x", "y", ownKey}[rng.IntN(3)]
	wait := time.Duration(rng.IntN(5)) * sec
	lease := time.Duration(1+rng.IntN(3)) * sec
	latest := wait + 1250*ms
	if wait == 0 {
		latest = 5250 * ms
	}
	ctx := r.ctx
	if rng.IntN(4) == 0 {
		patience := time.Duration(rng.IntN(3000)) * ms
		latest = min(latest, patience)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	before := r.since()
	ticket, err := r.c.Acquire(ctx, key, 0, client.Wait(wait), client.Lease(lease))
	if took := r.since() - before; took > latest {
		r.Errorf("an acquire took %v, at most %v is allowed: %v", took, latest, err)
	}
	if err != nil {
		class := client.ClassOf(err)
		if class == client.ClassNone {
			r.Errorf("%v has no class", err)
		}
		if class != client.ClassIndeterminate && r.srv.Granted(ownKey) != 0 {
			r.Errorf("it was granted, and the error is %v", err)
		}
		return
	}
	h := hold{key: key, token: ticket.Token(), from: r.since()}
	time.Sleep(time.Duration(rng.IntN(1500)) * ms)
	h.end = min(r.since(), ticket.Deadline().Sub(r.start))
	seen.mu.Lock()
	seen.all = append(seen.all, h)
	seen.mu.Unlock()
	if rng.IntN(5) == 0 {
		return // it vanished: the lease returns the key
	}
	before = r.since()
	err = ticket.Release(ctx)
	if took := r.since() - before; took > 5*sec {
		r.Errorf("a release took %v", took)
	}
	if err != nil && !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrIndeterminate) {
		r.Errorf("release: %v", err)
	}
	if err == nil && r.srv.Held(key) == ticket.Token() {
		r.Error("reported as released, and still held")
	}
}

func (h *holds) check(t *testing.T) {
	slices.SortFunc(h.all, func(a, b hold) int { return int(a.token) - int(b.token) })
	last := map[string]hold{}
	for _, now := range h.all {
		if before, ok := last[now.key]; ok && (now.from < before.end || now.token == before.token) {
			t.Errorf("two holders of %s: %+v and %+v", now.key, before, now)
		}
		last[now.key] = now
	}
}
