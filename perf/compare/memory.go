package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// weight is what one thing of many costs in resident memory.
type weight struct {
	ID    string  `json:"id"` // of the subject
	Title string  `json:"title"`
	Thing string  `json:"thing"`
	Count int     `json:"count"`
	Bytes float64 `json:"bytes"` // for each
}

const (
	idleConnection = "idle connection"
	heldLock       = "held lock"
	waiter         = "waiter"
	waiterAndConn  = "waiter, its connection included"
)

// measureMemory weighs connections, locks and waiters, each kind in a process of
// its own: memory that one has freed would hide what the next takes.
func measureMemory(o *options) (all []weight, err error) {
	connections, locks, waiters := []int{1000, 8000}, []int{100_000, 1_000_000}, 40_960
	if o.quick {
		connections, locks, waiters = []int{1000}, []int{100_000}, 10_240
	}
	add := func(s subject, thing string, count int, bytes float64) {
		all = append(all, weight{s.id, s.title, thing, count, bytes})
		o.say("memory: %-45s %9d × %-32s %7.0f B", s.title, count, thing, bytes)
	}
	ours := ticketing(1, "MAX_CONNECTIONS=8192", "MAX_KEYS=4000000", "MAX_WAITERS=16384", "MAX_TOTAL_WAITERS=65536")
	peers, _ := installed([]subject{
		{setDel, "Redis", "", startRedis, newSetDel},
		{memcache, "memcached", "", startMemcached, newMemcached}})
	for _, s := range append([]subject{ours}, peers...) {
		if err := weighConnections(o, s, connections, add); err != nil {
			return nil, err
		}
		for _, n := range locks {
			w := workload{connections: 16, depth: 64, task: filling, lease: 250, fill: n}
			if err := weigh(o, s, w, heldLock, n, add); err != nil {
				return nil, err
			}
		}
	}
	const keys = 16
	w := workload{connections: 64, depth: waiters / 64, task: parking, wait: 255, lease: 250, contended: keys, fill: keys}
	if err := weigh(o, ours, w, waiter, waiters-keys, add); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return all, nil
	}
	s := subject{blpop, "Redis, BLPOP", "", startRedis, newBlpop}
	n := connections[len(connections)-1]
	w = workload{connections: n, depth: 1, task: parking, contended: keys, fill: keys}
	return all, weigh(o, s, w, waiterAndConn, n-keys, add)
}

// still is how long memory must not change until it is believed. Ticketing gives
// back after a second of quiet what a burst has left.
func (o *options) still() time.Duration {
	if o.quick {
		return 200 * time.Millisecond
	}
	return 1500 * time.Millisecond
}

type adder = func(s subject, thing string, count int, bytes float64)

// weighConnections dials more and more that say nothing.
func weighConnections(o *options, s subject, counts []int, add adder) error {
	p, err := s.start(o)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := warmUp(p, s); err != nil {
		return err
	}
	before := p.settled(o.still())
	var fds []int
	defer func() { hangUp(fds) }()
	for _, n := range counts {
		if fds, err = dialMore(fds, n, p.addr); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		add(s, idleConnection, n, float64(p.settled(o.still())-before)/float64(n))
	}
	return nil
}

const warmConnections = 16

// warmUp uses a few connections and closes them: the first ones bring pages of the
// binary into memory, which are nobody's.
func warmUp(p *process, s subject) error {
	w := workload{connections: warmConnections, depth: 1, lease: 30}
	proto := s.proto()
	if s.id == blpop {
		proto = newSetDel()
	}
	g, err := newGenerator(p, proto, w)
	if err != nil {
		return err
	}
	defer g.close()
	_, err = g.run(0, 20*time.Millisecond)
	return err
}

// dialMore adds connections until there are n.
func dialMore(fds []int, n int, addr string) ([]int, error) {
	for len(fds) < n {
		fd, err := dial(addr)
		if err != nil {
			return fds, fmt.Errorf("connection %d: %w", len(fds), err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func hangUp(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// weigh takes keys, or waits for them, over connections that have been weighed,
// except where a waiter is one.
func weigh(o *options, s subject, w workload, thing string, count int, add adder) error {
	p, err := s.start(o)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := warmUp(p, s); err != nil {
		return err
	}
	before := p.settled(o.still())
	g, err := newGenerator(p, s.proto(), w)
	if err != nil {
		return err
	}
	defer g.close()
	if thing != waiterAndConn {
		before = p.settled(o.still())
	}
	if err := g.hold(); err != nil {
		return err
	}
	after := p.settled(o.still())
	if p.admin != "" {
		if err := check(p, thing, count); err != nil {
			return err
		}
	}
	add(s, thing, count, float64(after-before)/float64(count))
	return nil
}

// check asks the server whether it has what is being weighed.
func check(p *process, thing string, count int) error {
	keys, waiters, err := population(p)
	if err != nil {
		return err
	}
	have := keys
	if thing == waiter {
		have = waiters
	}
	if have < count || have > count+warmConnections { // a warm-up leaves what it held when it was over
		return fmt.Errorf("%s has %d of %d: %s", p.name, have, count, thing)
	}
	return nil
}

// population asks the admin endpoint for the keys and waiters of a server.
func population(p *process) (keys, waiters int, err error) {
	c := http.Client{Timeout: 5 * time.Second}
	defer c.CloseIdleConnections()
	answer, err := c.Get("http://" + p.admin + "/status")
	if err != nil {
		return 0, 0, err
	}
	defer answer.Body.Close()
	var status struct {
		Loops []struct{ Keys, Waiters int }
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return 0, 0, err
	}
	for _, l := range status.Loops {
		keys += l.Keys
		waiters += l.Waiters
	}
	return keys, waiters, nil
}
