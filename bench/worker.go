package bench

import (
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// phase is where the run of a thread is.
//
//	warming ──the warm-up is over──▶ measuring ──Duration, Ops, or told to stop──▶ draining ──▶ done
//
// In the drain no attempt begins and held grants are released. It ends when
// nothing is under way, or when what still is has been patiently waited for.
type phase uint8

const (
	warming phase = iota
	measuring
	draining
)

// worker is one thread of the generator with its share of the connections.
type worker struct {
	run    *run
	cfg    *Config
	verify *verifier
	names  *keySet
	draw   *draw
	random rand.PCG
	index  int
	epoll  int
	timer  int // timerfd, polled as local number -1
	conns  []*conn

	wait, lease uint8
	hold        int64
	rate        float64

	phase    phase
	now      int64
	start    int64 // of measuring
	stop     int64 // of measuring; 0: not yet known
	giveUp   int64 // when the drain ends whatever is open
	nextLook int64 // when the drain asks next whether all that is open is overdue
	quota    int64 // attempts that may still begin as measured ones; only with Config.Ops
	open     int   // attempts under way
	pending  int64 // of these, measured
	live     int   // connections
	floor    uint64
	sched    schedule
	free     ring[free] // idle slots of the open loop
	holds    ring[held]
	armed    int64 // what the timer is set to; 0: not set
	rest     int   // rounds until the next glance

	dirty   []*conn
	round   []grant // of this round
	keyText []byte
	replies []codec.Reply // of one connection, that are looked at together
	ahead   int64         // of no meaning: what was read ahead

	tally         *tally
	nextTick      int64
	indeterminate int64         // requests whose connection ended before their answer
	unanswered    int64         // requests that the run's end left without an answer, and that are not lost
	unsent        int64         // attempts of the open loop that were due and did not begin
	cpuStart, cpu time.Duration // of this thread, while measuring
	processCPU    time.Duration // of the whole process, in that time
}

// free is an idle slot, held a grant that is held.
type (
	free struct {
		conn *conn
		slot uint16
	}
	held struct {
		at    int64
		conn  *conn
		slot  uint16
		token uint64
	}
)

// idlePoll is how long a thread sleeps at most: it looks for the end of the run.
const idlePoll = 50 * time.Millisecond

func (w *worker) clock() int64 { return w.run.clock() }

// work drives the connections until the run is over.
func (w *worker) work() {
	runtime.LockOSThread() // so that its CPU time can be told
	defer runtime.UnlockOSThread()
	w.now = w.clock()
	w.advance()
	w.fill()
	events := make([]unix.EpollEvent, 256)
	for w.advance() {
		w.beginDue()
		w.releaseDue()
		w.flush()
		n, err := w.await(events, w.timeout())
		if err != nil && err != unix.EINTR {
			w.run.fail(err)
			return
		}
		w.now = w.clock()
		if global := w.run.floor.Load(); global > w.floor {
			w.floor = global
		}
		for i := range max(n, 0) {
			w.handle(&events[i])
		}
	}
	w.flush()
	w.finish()
}

// fill starts every slot: at once in the closed loop.
func (w *worker) fill() {
	for i := range w.cfg.Pipeline { // a slot of each connection, then the next of each
		for _, c := range w.conns {
			if w.rate > 0 {
				w.free.push(free{c, uint16(i)})
			} else if w.mayBegin() {
				c.acquire(uint16(i), 0)
			}
		}
	}
}

func (w *worker) handle(event *unix.EpollEvent) {
	if event.Fd < 0 {
		var fired [8]byte
		_, _ = unix.Read(w.timer, fired[:])
		w.armed = 0
		return
	}
	c := w.conns[event.Fd]
	if c.ended {
		return
	}
	if event.Events&unix.EPOLLOUT != 0 && !c.dirty {
		c.dirty = true
		w.dirty = append(w.dirty, c)
	}
	if event.Events&^unix.EPOLLOUT != 0 {
		c.receive()
	}
}

// flush ends a round: what was granted in it is compared with what other threads
// were granted, and what follows from it is written.
func (w *worker) flush() {
	if len(w.round) > 0 {
		w.verify.checkRepeats(w.round)
		w.round = w.round[:0]
		w.run.raiseFloor(w.floor)
	}
	for i := 0; i < len(w.dirty); i++ {
		w.dirty[i].flush()
	}
	w.dirty = w.dirty[:0]
}

// advance moves on to the next phase when its time has come, and reports whether
// there is more to do.
func (w *worker) advance() bool {
	for w.now >= w.nextTick && w.phase != draining {
		w.tick()
	}
	if w.phase == warming && w.now >= w.start {
		w.phase = measuring
		w.cpuStart, w.processCPU = threadCPU(), -cpuTime(unix.RUSAGE_SELF)
	}
	if w.phase != draining && (w.run.stopping.Load() || w.live == 0 ||
		w.phase == measuring && (w.stop != 0 && w.now >= w.stop || w.opsDone())) {
		w.beginDrain()
	}
	return w.phase != draining || w.open > 0 && w.now < w.giveUp && !w.allOverdue()
}

// opsDone reports whether all attempts of a run by Ops are answered, or nothing
// is left that could be.
func (w *worker) opsDone() bool {
	switch {
	case w.cfg.Ops == 0:
		return false
	case w.quota == 0 && w.pending == 0:
		return true
	}
	mayBegin := w.quota > 0 && w.rate > 0 && w.free.len() > 0
	return w.open > 0 && !mayBegin && w.allOverdue()
}

// beginDrain ends the measuring.
func (w *worker) beginDrain() {
	if w.phase == measuring {
		w.cpu = threadCPU() - w.cpuStart
		w.processCPU += cpuTime(unix.RUSAGE_SELF)
	}
	if w.stop == 0 || w.now < w.stop {
		w.stop = w.now
	}
	if w.rate > 0 && w.cfg.Ops == 0 {
		w.unsent = w.sched.missed(w.stop)
	}
	w.handOver(w.stop)
	w.phase = draining
	w.giveUp = w.now + int64(w.cfg.Wait+w.cfg.Patience) + int64(idlePoll)
	if w.run.stopping.Load() {
		w.giveUp = min(w.giveUp, w.now+int64(hastyDrain))
	}
	for {
		h, ok := w.holds.pop()
		if !ok {
			return
		}
		w.letGo(h)
	}
}

// mayBegin reports whether an attempt may begin now, and takes it off the quota.
func (w *worker) mayBegin() bool {
	if w.phase == draining || w.run.stopping.Load() {
		return false
	}
	if w.cfg.Ops == 0 || w.phase == warming {
		return true
	}
	if w.quota == 0 {
		return false
	}
	w.quota--
	return true
}

// counts reports whether an attempt that begins now is a measured one, and
// counts it.
func (w *worker) counts(due int64) bool {
	if w.phase != measuring || due != 0 && due < w.start {
		return false
	}
	w.pending++
	return true
}

// beginDue begins what is due in the open loop, as long as there are idle slots.
func (w *worker) beginDue() {
	if w.rate == 0 {
		return
	}
	for w.free.len() > 0 && w.sched.due() <= w.now {
		if w.free.front().conn.ended {
			w.free.pop()
			continue
		}
		due := w.sched.due()
		if w.stop != 0 && due >= w.stop || !w.mayBegin() {
			return
		}
		f, _ := w.free.pop()
		w.sched.n++
		f.conn.acquire(f.slot, due)
	}
}

// releaseDue gives back what was held long enough.
func (w *worker) releaseDue() {
	for w.holds.len() > 0 && w.holds.front().at <= w.now {
		h, _ := w.holds.pop()
		w.letGo(h)
	}
}

func (w *worker) letGo(h held) {
	s := &h.conn.slots[h.slot]
	if h.conn.ended || s.state != holding || s.token != h.token {
		return
	}
	w.keyText = w.names.appendKey(w.keyText[:0], s.key)
	h.conn.release(h.slot, w.dueNow(min(h.at, w.now)), w.keyText)
}

// dueNow is what the latency of a release counts from: in the open loop the
// instant from which it should have been sent.
func (w *worker) dueNow(at int64) int64 {
	if w.rate > 0 {
		return at
	}
	return 0
}

// timeout is how long to wait for replies, in ms; what must be more exact than
// that sets the timer.
func (w *worker) timeout() int {
	exact := int64(0)
	if w.holds.len() > 0 {
		exact = w.holds.front().at
	}
	if w.rate > 0 && w.free.len() > 0 && w.phase != draining {
		if due := w.sched.due(); exact == 0 || due < exact {
			exact = due
		}
	}
	if exact != 0 && exact != w.armed {
		w.arm(exact)
	}
	until := w.now + int64(idlePoll)
	if w.phase != draining {
		until = min(until, w.nextTick)
	}
	return int((max(until-w.now, 0) + int64(time.Millisecond) - 1) / int64(time.Millisecond))
}

// arm has the timer go off at an instant; one that has passed, at once.
func (w *worker) arm(at int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at-w.clock(), 1))}
	if err := unix.TimerfdSettime(w.timer, 0, &spec, nil); err != nil {
		w.run.fail(err)
		return
	}
	w.armed = at
}

func (w *worker) poll(op, fd int, events uint32, local int32) {
	event := unix.EpollEvent{Events: events, Fd: local}
	if err := unix.EpollCtl(w.epoll, op, fd, &event); err != nil && op != unix.EPOLL_CTL_DEL {
		w.run.fail(err)
	}
}

// threadCPU is the CPU time of the calling thread.
func threadCPU() time.Duration { return cpuTime(unix.RUSAGE_THREAD) }

func cpuTime(who int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
