package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// repliesTogether is how many replies are looked at together: as many as a server
// writes at a time (protocol §7).
const repliesTogether = 64

// run is one call of Run: what its threads share.
type run struct {
	cfg      Config
	epoch    time.Time
	interval int64 // ns
	addr     string
	bridges  sync.WaitGroup

	stopping atomic.Bool
	floor    atomic.Uint64 // the greatest token that any thread has received
	tallies  chan *tally
	spare    chan *tally

	found violations

	mu     sync.Mutex
	broken error // a system call failed that must not
	ends   Ends
	early  error // the first connection that ended without ever answering
}

// Run loads the server as cfg says and returns what it found. It fails with a
// *ConfigError, or an error that wraps ErrNoSession when no session was had: a
// connection could not be made, or ended before it had answered anything. The
// result is nil only if nothing was sent.
//
// When ctx ends, so does the run; what was measured until then is the result and
// there is no error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Threads = min(cfg.Threads, cfg.Connections)
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	r := &run{
		cfg: cfg, epoch: time.Now(), interval: int64(cfg.interval()),
		tallies: make(chan *tally, 1024), spare: make(chan *tally, 4*cfg.Threads),
	}
	defer r.bridges.Wait()
	links, err := r.dialAll(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := r.newWorkers(links)
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	return r.drive(ctx, workers)
}

// drive has the workers work, and gathers what they find.
func (r *run) drive(ctx context.Context, workers []*worker) (*Result, error) {
	result := r.newResult()
	begun := r.clock()
	for _, w := range workers {
		w.begin(begun)
	}
	result.start = workers[0].start
	stop := context.AfterFunc(ctx, func() { r.stopping.Store(true) })
	defer stop()
	var work sync.WaitGroup
	for _, w := range workers {
		work.Go(w.work)
	}
	go func() {
		work.Wait()
		close(r.tallies)
	}()
	c := newCollector(r, result)
	for t := range r.tallies {
		c.add(t)
		t.reset()
		select {
		case r.spare <- t:
		default:
		}
	}
	c.finish(workers)
	result.Interrupted = ctx.Err() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return result, r.broken
	}
	return result, r.early
}

// clock is ns since the run began, and never 0.
func (r *run) clock() int64 { return int64(time.Since(r.epoch)) + 1 }

// raiseFloor notes the greatest token that a thread has received.
func (r *run) raiseFloor(token uint64) {
	for {
		now := r.floor.Load()
		if now >= token || r.floor.CompareAndSwap(now, token) {
			return
		}
	}
}

// fail ends the run for a defect of this machine or this program.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
	}
	r.stopping.Store(true)
}

// connEnded notes that a connection ended before the run did. One that never
// answered shows that the server does not want us as we are.
func (r *run) connEnded(id uint32, answered bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends.Count++
	if len(r.ends.Reasons) < keptViolations {
		r.ends.Reasons = append(r.ends.Reasons, fmt.Sprintf("connection %d: %v", id, err))
	}
	if !answered && r.early == nil {
		r.early = fmt.Errorf("%w: %s: connection %d of %d: %w", ErrNoSession, r.addr, id+1, r.cfg.Connections, err)
		r.stopping.Store(true)
	}
}

// newWorkers deals the connections to threads, in turns. On an error the caller
// closes those that are returned.
func (r *run) newWorkers(links []link) (workers []*worker, err error) {
	random := rand.New(rand.NewPCG(r.cfg.Seed, 0))
	keys := r.cfg.Keys
	if r.cfg.Dist == Single {
		keys = 1
	}
	names := newKeySet(r.cfg.Keys, r.cfg.KeySize, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	verify := newVerifier(names, keys, r.cfg.Wait, r.cfg.Lease, r.cfg.Threads, r.cfg.Connections*r.cfg.Pipeline, &r.found)
	chosen := newDraw(r.cfg.Dist, r.cfg.Keys)
	for i := range r.cfg.Threads {
		w := &worker{
			run: r, cfg: &r.cfg, verify: verify, names: names, draw: chosen, index: i,
			random: *rand.NewPCG(random.Uint64(), random.Uint64()),
			wait:   uint8(r.cfg.Wait / time.Second), lease: uint8(r.cfg.Lease / time.Second),
			hold: int64(r.cfg.Hold), rate: r.cfg.Rate,
			epoll: -1, timer: -1,
			tally:   &tally{},
			replies: make([]codec.Reply, 0, repliesTogether),
		}
		workers = append(workers, w)
		for at := i; at < len(links); at += r.cfg.Threads {
			w.conns = append(w.conns, newConn(w, uint32(at), links[at]))
		}
		w.live = len(w.conns)
	}
	for _, w := range workers {
		if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
			return workers, err
		}
		if w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
			return workers, err
		}
		w.poll(unix.EPOLL_CTL_ADD, w.timer, unix.EPOLLIN, -1)
		for i, c := range w.conns {
			w.poll(unix.EPOLL_CTL_ADD, c.fd, unix.EPOLLIN, int32(i))
		}
	}
	return workers, r.broken
}

// begin sets the times of a run that begins now.
func (w *worker) begin(now int64) {
	cfg := w.cfg
	w.start = now + int64(cfg.Warmup)
	if cfg.Duration > 0 {
		w.stop = w.start + int64(cfg.Duration)
	}
	w.nextTick = w.start - int64(cfg.Warmup)/w.run.interval*w.run.interval
	if w.nextTick <= now {
		w.nextTick += w.run.interval
	}
	w.tally.from = now
	w.quota = cfg.Ops / int64(cfg.Threads)
	if int64(w.index) < cfg.Ops%int64(cfg.Threads) {
		w.quota++
	}
	if cfg.Rate > 0 {
		w.sched = newSchedule(now, cfg.Rate, w.index, cfg.Threads)
	}
}

// close gives back what the worker still has.
func (w *worker) close() {
	for _, c := range w.conns {
		if !c.ended {
			link(c.fd).close()
		}
	}
	for _, fd := range []int{w.epoll, w.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
