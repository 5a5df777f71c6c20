package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ticketing/client"
	"ticketing/internal/chaos/history"
)

// clock is the one clock of a run.
type clock struct{ epoch time.Time }

func (c clock) now() history.Instant { return c.at(time.Now()) }

func (c clock) at(t time.Time) history.Instant { return history.Instant(t.Sub(c.epoch)) }

// A load is the clients of a run and what they were told.
type load struct {
	clock   clock
	seed    uint64
	addrs   []string
	clients []*client.Client
	workers []*worker
	others  []*worker // those that do as they are told
	cold    atomic.Uint64
	counts  [8]atomic.Uint64 // by outcome

	ended sync.WaitGroup
}

// clientIP is the address of client i, from 0.
func clientIP(i int) string { return fmt.Sprintf("127.0.2.%d", i+1) }

// newLoad makes clients, each with an address of its own. Most know all nodes,
// each beginning with another; one in three knows a single one and finds the
// leader by what that one says. They say in log what becomes of their sessions.
func newLoad(clk clock, seed uint64, addrs []string, clients, workers int, log io.Writer) (*load, error) {
	l := &load{clock: clk, seed: seed, addrs: addrs}
	for i := range clients {
		first := i % len(addrs)
		known := append(append([]string{}, addrs[first:]...), addrs[:first]...)
		if i%3 == 2 {
			known = known[:1]
		}
		c, err := client.New(client.Config{
			Addrs: known, DialContext: dialFrom(clientIP(i)), Logger: slog.New(slog.NewTextHandler(log, nil)).With("client", i+1),
		})
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	for i := range workers {
		l.workers = append(l.workers, &worker{
			load: l, id: i, client: l.clients[i%clients], other: l.clients[(i+1)%clients],
			random: rand.New(rand.NewPCG(seed, uint64(i))),
		})
	}
	return l, nil
}

// dialFrom dials from an address.
func dialFrom(ip string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{
		LocalAddr:       &net.TCPAddr{IP: net.ParseIP(ip)},
		Timeout:         2 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return dialer.DialContext
}

// start lets the workers work until ctx ends.
func (l *load) start(ctx context.Context) {
	for _, w := range l.workers {
		l.ended.Add(1)
		go func() {
			defer l.ended.Done()
			w.work(ctx)
		}()
	}
}

// end waits for the workers.
func (l *load) end() { l.ended.Wait() }

// close closes the clients.
func (l *load) close() {
	for _, c := range l.clients {
		c.Close()
	}
}

// history returns every call there was. The workers must have ended.
func (l *load) history() []history.Op {
	var ops []history.Op
	for _, w := range slices.Concat(l.workers, l.others) {
		ops = append(ops, w.ops...)
	}
	return ops
}

// calls is how many calls have returned.
func (l *load) calls() (n uint64) {
	for i := range l.counts {
		n += l.counts[i].Load()
	}
	return n
}

// A worker makes one call after another.
type worker struct {
	load   *load
	id     int
	client *client.Client
	other  *client.Client // for releases by somebody else
	random *rand.Rand
	ops    []history.Op
	probes int // of a probe: how often it asked
}

// record keeps a call that has returned.
func (w *worker) record(op history.Op) {
	w.load.counts[op.Outcome].Add(1)
	w.ops = append(w.ops, op)
}

// acquire makes one acquire and records it. It returns nil unless granted.
func (w *worker) acquire(ctx context.Context, key string, wait, lease int) *client.Ticket {
	op := history.Op{Worker: w.id, Kind: history.Acquire, Key: key, Wait: uint8(wait), Lease: uint8(lease)}
	op.Call = w.load.clock.now()
	t, err := w.client.Acquire(ctx, key, 0, client.Wait(time.Duration(wait)*time.Second), client.Lease(time.Duration(lease)*time.Second))
	op.Return = w.load.clock.now()
	if err == nil {
		op.Outcome, op.Token, op.Ends = history.Granted, t.Token(), w.load.clock.at(t.Deadline())
	} else {
		op.Outcome, op.Error = acquireOutcome(err), err.Error()
	}
	w.record(op)
	return t
}

// acquireOutcome says what an error means for the history.
func acquireOutcome(err error) history.Outcome {
	if _, late := errors.AsType[*client.InsufficientLeaseError](err); late {
		return history.Indeterminate // it was granted, and is being given back
	}
	switch {
	case errors.Is(err, client.ErrBusy):
		return history.Busy
	case client.ClassOf(err) == client.ClassNotGranted:
		return history.TimedOut
	case client.ClassOf(err) == client.ClassNotExecuted:
		return history.NotExecuted
	}
	return history.Indeterminate
}

// release gives a ticket back and records it.
func (w *worker) release(key string, token uint64, do func() error) {
	op := history.Op{Worker: w.id, Kind: history.Release, Key: key, Token: token}
	op.Call = w.load.clock.now()
	err := do()
	op.Return = w.load.clock.now()
	op.Outcome = releaseOutcome(err)
	if err != nil {
		op.Error = err.Error()
		if call, ok := errors.AsType[*client.CallError](err); ok {
			op.Retried = call.Retried
		}
	}
	w.record(op)
}

func releaseOutcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Released
	case errors.Is(err, client.ErrNotHeld):
		return history.NotHeld
	case client.ClassOf(err) == client.ClassNotExecuted:
		return history.NotExecuted
	}
	return history.Indeterminate
}

// newProbe makes a worker with a client of its own that no fault touches.
func (l *load) newProbe(addrs []string) (*worker, error) {
	workers, err := l.aside("127.0.3.1", addrs, 1)
	if err != nil {
		return nil, err
	}
	return workers[0], nil
}

// newSweepers makes workers that share a client that no fault touches.
func (l *load) newSweepers(addrs []string, count int) ([]*worker, error) {
	return l.aside("127.0.3.2", addrs, count)
}

// aside makes workers that do as they are told, and whose calls count.
func (l *load) aside(ip string, addrs []string, count int) ([]*worker, error) {
	c, err := client.New(client.Config{Addrs: addrs, DialContext: dialFrom(ip)})
	if err != nil {
		return nil, err
	}
	l.clients = append(l.clients, c)
	var made []*worker
	for range count {
		id := len(l.workers) + len(l.others)
		w := &worker{load: l, id: id, client: c, other: c, random: rand.New(rand.NewPCG(l.seed, uint64(id)))}
		l.others = append(l.others, w)
		made = append(made, w)
	}
	return made, nil
}

// lastKeys are the keys that were in use in the last epoch.
func (l *load) lastKeys() (keys []string) {
	var last history.Instant
	for _, w := range l.workers {
		if len(w.ops) > 0 {
			last = max(last, w.ops[len(w.ops)-1].Return)
		}
	}
	seen := map[string]bool{}
	for _, w := range l.workers {
		for i := len(w.ops) - 1; i >= 0 && last.Sub(w.ops[i].Return) < epoch; i-- {
			if key := w.ops[i].Key; !seen[key] && !strings.HasPrefix(key, "cold") {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}
