package loop

import (
	"context"
	"sync/atomic"
	"time"
)

// command is something rare that a loop shall do: publish, drain.
type command struct {
	next *command
	run  func()
}

// commandStack hands commands from any goroutine to a loop, in order.
type commandStack struct{ head atomic.Pointer[command] }

// command has l run f on its own goroutine, in its next turn.
func (l *loop) command(f func()) {
	c := &command{run: f}
	for {
		c.next = l.commands.head.Load()
		if l.commands.head.CompareAndSwap(c.next, c) {
			break
		}
	}
	l.attention.wake()
}

func (l *loop) runCommands() {
	var list *command
	for c := l.commands.head.Swap(nil); c != nil; {
		next := c.next
		c.next = list
		list, c = c, next
	}
	for c := list; c != nil; c = c.next {
		c.run()
	}
}

// publish lays out what others may know of this loop.
func (l *loop) publish(queues int) {
	sh := l.own()
	p := &LoopSnapshot{
		Connections:  l.sessions,
		Keys:         sh.Keys(),
		Waiters:      sh.Waiters(),
		Shard:        *sh.Counters(),
		Ended:        l.ended,
		BusyInFlight: l.busyInFlight,
		At:           time.Now(),
	}
	if r := l.replicated; r != nil {
		p.Unconfirmed = len(r.turns) - r.head
	}
	if queues > 0 {
		p.Queues = sh.Longest(queues)
	}
	l.published.Store(p)
}

// Snapshot asks every loop to publish and adds up what they say, with the
// longest queues of each when queues > 0. A loop that is too busy to answer in
// time is not waited for: what it published last is taken.
func (srv *Server) Snapshot(ctx context.Context, queues int) Snapshot {
	srv.publishing.Lock()
	defer srv.publishing.Unlock()
	answered := make(chan struct{}, len(srv.loops))
	if srv.serving.Load() {
		asked := 0
		for _, l := range srv.loops {
			if l.asked.Swap(true) {
				continue // it hangs: one question at a time
			}
			asked++
			l.command(func() {
				l.publish(queues)
				l.asked.Store(false)
				answered <- struct{}{}
			})
		}
		ctx, cancel := context.WithTimeout(ctx, publishWait)
		defer cancel()
	wait:
		for range asked {
			select {
			case <-answered:
			case <-ctx.Done():
				break wait
			}
		}
	}
	b := srv.budgets
	snap := Snapshot{
		Started:      srv.start,
		Ready:        srv.Ready(),
		Draining:     srv.draining.Load(),
		Epoch:        srv.Leading(),
		MaxWaiters:   srv.cfg.MaxWaiters,
		Accepted:     srv.accepted.Load(),
		Refused:      srv.refused.Load(),
		AcceptErrors: srv.failed.Load(),
		Panics:       srv.panics.Load(),
	}
	live := int(srv.live.Load())
	snap.Gauges = []Gauge{
		{Name: "connections", Used: live, Limit: srv.cfg.MaxConnections, Open: live < srv.cfg.MaxConnections},
		{Name: "waiters", Used: b.Waiters.Used(), Limit: b.Waiters.Limit(), Open: b.Waiters.Open()},
		{Name: "keys", Used: b.Keys.Used(), Limit: b.Keys.Limit(), Open: b.Keys.Open()},
		{Name: "acquires_in_flight", Used: b.Acquires.Used(), Limit: b.Acquires.Limit(), Open: b.Acquires.Open()},
		{Name: "releases_in_flight", Used: b.Releases.Used(), Limit: b.Releases.Limit(), Open: b.Releases.Used() < b.Releases.Limit()},
	}
	if cfg := srv.tls.Load(); cfg != nil {
		snap.TLS = srv.handshakes.snapshot()
		snap.TLS.NotAfter = notAfter(cfg)
	}
	for _, l := range srv.loops {
		if p := l.published.Load(); p != nil {
			snap.Loops = append(snap.Loops, *p)
		} else {
			snap.Loops = append(snap.Loops, LoopSnapshot{})
		}
	}
	return snap
}
