package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ticketing/client"
)

// A lead that is handed over leaves nobody without knowing: who waits is sent
// on, and gets the key at the new leader.
func TestTransfer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	old := c.settled()
	next := c.follower(old)
	cl := c.dial()
	held, err := cl.Acquire(t.Context(), "k", 0, client.Lease(200*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		ticket, err := cl.Acquire(t.Context(), "k", 0, client.Wait(60*time.Second))
		if err == nil && ticket.Token() <= held.Token() {
			err = fmt.Errorf("token %d after %d", ticket.Token(), held.Token())
		}
		waits <- err
	}()
	byHand := old.raw()
	byHand.acquire(200, 9, "k")
	c.until("two wait", func() bool {
		_, body := old.get("/metrics")
		return strings.Contains(string(body), "\nticketing_waiters 2\n")
	})

	start := time.Now()
	if out := c.change("transfer", next.name); !strings.Contains(out, "handed over") {
		t.Error(out)
	}
	t.Logf("the command took %v", time.Since(start))
	if got, want := byHand.rest(), "M"+next.client()+"\n"; got != want {
		t.Errorf("who waited by hand got %q, want %q", got, want)
	}
	if leader := c.settled(); leader != next {
		t.Errorf("%s leads, want %s", leader.name, next.name)
	}
	c.until("the official client waits at the new leader", func() bool {
		_, body := next.get("/metrics")
		return strings.Contains(string(body), "\nticketing_waiters 1\n")
	})
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("a lock of before is not released: %v", err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}

	// On a follower the command says who leads.
	out := c.command(1, "cluster", "transfer", "--admin-addr="+old.admin())
	if !strings.Contains(out, "the leader is "+next.name) || !strings.Contains(out, next.client()) {
		t.Error(out)
	}
	if out := c.command(1, "cluster", "transfer", "n9", "--admin-addr="+next.admin()); !strings.Contains(out, "n9") {
		t.Error(out)
	}
}

// The leader is killed: clients find another within a second or so, and what
// they held is theirs.
func TestFailOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	old := c.settled()
	cl := c.dial()
	held, err := cl.Acquire(t.Context(), "held", 0, client.Lease(200*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := cl.Acquire(t.Context(), "held", 0, client.Wait(60*time.Second))
		waits <- err
	}()
	c.until("one waits", func() bool {
		_, body := old.get("/metrics")
		return strings.Contains(string(body), "\nticketing_waiters 1\n")
	})
	old.kill()
	start := time.Now()
	if err := <-waits; !errors.Is(err, client.ErrIndeterminate) {
		t.Errorf("who waited at the old leader got %v", err)
	}
	learnt := time.Since(start)

	released := make(chan error, 1)
	go func() { released <- held.Release(t.Context()) }() // tried again until there is a leader
	fresh, err := cl.Acquire(t.Context(), "fresh", 0, client.Wait(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("who waited learnt it after %v, the first grant came after %v", learnt, took)
	if fresh.Token() <= held.Token() {
		t.Errorf("token %d after %d", fresh.Token(), held.Token())
	}
	if err := <-released; err != nil {
		t.Errorf("the release is lost: %v", err)
	}
	// It is free: whoever waited there is not in a queue any more.
	if _, err := cl.Acquire(t.Context(), "held", 0, client.Wait(0)); err != nil {
		t.Errorf("after the release: %v", err)
	}
	old.start()
	c.settled()
	c.until("the old leader has caught up", func() bool { return old.status().Applied >= c.settled().status().Commit })
}

// worker takes and releases keys until ctx is done, and counts what came of it.
type worker struct {
	granted, refused, unknown atomic.Int64
}

func (w *worker) run(ctx context.Context, cl *client.Client, key string) error {
	before := uint64(0)
	for ctx.Err() == nil {
		ticket, err := cl.Acquire(ctx, key, 0, client.Wait(20*time.Second), client.Lease(60*time.Second))
		switch client.ClassOf(err) {
		case client.ClassNone:
		case client.ClassIndeterminate:
			if ctx.Err() == nil {
				w.unknown.Add(1)
			}
			continue
		default:
			w.refused.Add(1)
			continue
		}
		if ticket.Token() <= before {
			return fmt.Errorf("%s: token %d after %d", key, ticket.Token(), before)
		}
		before = ticket.Token()
		w.granted.Add(1)
		switch err := ticket.Release(context.WithoutCancel(ctx)); client.ClassOf(err) {
		case client.ClassNone:
		case client.ClassIndeterminate:
			w.unknown.Add(1)
		default: // not held: within 60 s nobody else can have released it
			return fmt.Errorf("%s: release: %w", key, err)
		}
	}
	return nil
}

// All nodes are restarted under load, one after the other: everybody gets every
// answer, unless an election that nobody planned comes between.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3).startAll()
	cl := c.dial()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	term := c.settled().status().Term
	var w worker
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			if err := w.run(ctx, cl, fmt.Sprint("key", i%3)); err != nil {
				t.Error(err)
			}
		})
	}
	handed := 0
	for range c.nodes {
		n := c.settled() // the leader each time: the hardest order
		granted := w.granted.Load()
		c.until("there is load", func() bool { return w.granted.Load() > granted+20 || t.Failed() })
		n.signal(syscall.SIGTERM)
		if log := n.exits(0); strings.Contains(log, "the lead was handed over") {
			handed++
		}
		n.start()
	}
	planned := c.settled().status().Term == term+uint64(len(c.nodes)) && handed == len(c.nodes)
	granted := w.granted.Load()
	c.until("it goes on", func() bool { return w.granted.Load() > granted+20 || t.Failed() })
	stop()
	running.Wait()
	t.Logf("%d grants, %d refused, %d indeterminate; the lead was handed over %d times", w.granted.Load(), w.refused.Load(), w.unknown.Load(), handed)
	if planned && w.unknown.Load() != 0 {
		t.Errorf("the lead moved as planned, and %d answers did not come", w.unknown.Load())
	}
	if handed == 0 {
		t.Error("nobody handed the lead over")
	}
}
