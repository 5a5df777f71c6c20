package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"
)

// load drives one server for a while, again and again.
type load interface {
	// run drives it for settle and then measures for d. Between two calls nothing
	// is sent or read.
	run(settle, d time.Duration) (slice, error)
	// latencies are those of all measured acquires: from before the request is
	// written to when its grant is read.
	latencies() *histogram
	close()
}

// slice is what one turn of a server has measured.
type slice struct {
	wall, cpu, own time.Duration // own: CPU of the generator
	longest        int64         // acquire, ns; not measured of etcd
	pairs          int64         // acquires with their releases; hand-overs where keys are contended
}

// task is what slots do.
type task uint8

const (
	pairing task = iota // acquire, release, again
	filling             // acquire a new key each time and keep it, until enough are held
	parking             // acquire once and keep: all but the holders wait
)

// workload is what a generator is told.
type workload struct {
	connections, depth int
	task               task
	wait, lease        uint8 // seconds
	contended          int   // all slots want so many keys; 0: no two want the same
	fill               int   // filling: how many keys
}

// setSize is how many keys there are to draw from, at least one for each slot.
const setSize = 131072

// generator is one epoll with all connections to one server.
type generator struct {
	workload
	proto  protocol
	server *process
	epoll  int
	conns  []*conn
	random rand.PCG
	set    []key // of the slots in turns; empty: keys are made anew
	name   uint64

	now       int64 // ns, read once after each read
	since     int64 // of this turn: what was sent before waited while nobody read
	recording bool
	begun     bool
	pairs     int64
	asked     int // acquires
	filled    int // grants that are kept
	latency   histogram
	longest   int64 // of this turn

	// With contended keys:
	holder []int32 // slot of all, for each key; -1: nobody
	last   []int32 // the one before
	grants []int64 // by connection
	passed int64   // grants to somebody else than the last holder
}

// newGenerator dials. prepare is done first.
func newGenerator(p *process, proto protocol, w workload) (*generator, error) {
	g := &generator{workload: w, proto: proto, server: p, name: rand.Uint64()}
	g.random.Seed(rand.Uint64(), rand.Uint64())
	var err error
	if g.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if prep, ok := proto.(preparer); ok {
		if err := prepare(prep, g); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	each := max(1, setSize/(w.connections*w.depth))
	for i := range w.connections {
		fd, err := dial(p.addr)
		if err != nil {
			g.close()
			return nil, fmt.Errorf("%s: connection %d: %w", p.name, i, err)
		}
		c := newConn(g, i, fd)
		g.conns = append(g.conns, c)
		if err := unix.EpollCtl(g.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}); err != nil {
			g.close()
			return nil, err
		}
		if w.task == pairing && w.contended == 0 {
			for s := range c.slots {
				for range each {
					g.set = append(g.set, makeKey(g.random.Uint64(), g.random.Uint64(), uint16(s)))
				}
			}
		}
	}
	for range w.contended {
		g.holder, g.last = append(g.holder, -1), append(g.last, -1)
	}
	g.grants = make([]int64, w.connections)
	return g, nil
}

// chooseKey gives the slot the key of its next attempt.
func (g *generator) chooseKey(c *conn, s *slot) {
	switch {
	case g.contended > 0:
		s.key = g.contendedKey(g.wanted(c, s))
	case len(g.set) > 0:
		each := len(g.set) / (len(g.conns) * len(c.slots))
		n := c.id*len(c.slots) + int(s.index)
		s.key = g.set[n*each+int(g.random.Uint64()>>32*uint64(each)>>32)]
	default:
		s.key = makeKey(g.random.Uint64(), g.random.Uint64(), s.index)
	}
}

// wanted is the contended key that a slot wants, always the same.
func (g *generator) wanted(c *conn, s *slot) int {
	return (c.id*len(c.slots) + int(s.index)) % g.contended
}

func (g *generator) contendedKey(i int) key { return makeKey(g.name, uint64(i), uint16(i)) }

var epoch = time.Now()

func nanotime() int64 { return int64(time.Since(epoch)) }

// run is load's.
func (g *generator) run(settle, d time.Duration) (slice, error) {
	g.now = nanotime()
	g.since, g.recording = g.now, false
	start, end := g.now+int64(settle), int64(0)
	if err := g.begin(); err != nil {
		return slice{}, err
	}
	var m slice
	events := make([]unix.EpollEvent, 256)
	// On a busy machine a turn may be too short for anybody to get a processor.
	for patience := start + int64(d+10*time.Second); g.now < patience; {
		if !g.recording && g.now >= start {
			m = slice{wall: time.Duration(-g.now), cpu: -g.server.cpu(), own: -ownCPU(), pairs: -g.done()}
			g.recording, g.longest, end = true, 0, g.now+int64(d)
		}
		if g.recording && g.now >= end && g.done()+m.pairs > 0 {
			break
		}
		if err := g.round(events, int(max(start, end)-g.now)/int(time.Millisecond)+1); err != nil {
			return slice{}, fmt.Errorf("%s: %w", g.server.name, err)
		}
	}
	m.cpu += g.server.cpu()
	m.own += ownCPU()
	m.pairs += g.done()
	m.wall += time.Duration(g.now)
	m.longest = g.longest
	g.recording = false
	if m.pairs == 0 {
		return slice{}, fmt.Errorf("%s: nothing done within %v", g.server.name, m.wall)
	}
	return m, nil
}

// done counts what a slice is measured by.
func (g *generator) done() int64 {
	if g.contended > 0 {
		return g.passed
	}
	return g.pairs
}

// begin starts all slots, once.
func (g *generator) begin() error {
	if g.begun {
		return nil
	}
	g.begun = true
	for _, c := range g.conns {
		for i := range c.slots {
			if g.task == filling && g.asked == g.fill {
				break
			}
			c.acquire(&c.slots[i])
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// round waits for replies, at most so many milliseconds, and answers them.
func (g *generator) round(events []unix.EpollEvent, patience int) error {
	n, err := unix.EpollWait(g.epoll, events, min(max(patience, 1), 50))
	if err != nil && err != unix.EINTR {
		return err
	}
	g.now = nanotime()
	for i := range max(n, 0) {
		if err := g.conns[events[i].Fd].receive(); err != nil {
			return err
		}
	}
	return nil
}

// hold takes and keeps the keys of a filling or parking workload: g.fill of them.
func (g *generator) hold() error {
	g.now = nanotime()
	if err := g.begin(); err != nil {
		return err
	}
	events := make([]unix.EpollEvent, 256)
	for last := g.now; g.filled < g.fill; {
		before := g.filled
		if err := g.round(events, 50); err != nil {
			return fmt.Errorf("%s: %w", g.server.name, err)
		}
		if g.filled > before {
			last = g.now
		}
		if g.now-last > int64(10*time.Second) {
			return fmt.Errorf("%s: %d keys are held and no more come", g.server.name, g.filled)
		}
	}
	return nil
}

func (g *generator) latencies() *histogram { return &g.latency }

func (g *generator) close() {
	for _, c := range g.conns {
		unix.Close(c.fd)
	}
	unix.Close(g.epoll)
}
