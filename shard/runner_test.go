package shard

import (
	"fmt"
	"strings"
	"time"

	"ticketing/lease"
)

// failer is what a runner needs of a test, a fuzz target or a rapid check.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// runner interprets a program, a string of bytes, as commands on a shard and
// holds everything the shard answers against the model. The same programs are
// the property test's, the fuzzer's and the regression seeds'.
type runner struct {
	failer
	source  []byte // the whole program
	program []byte // what is left of it
	shard   *Shard
	model   *model
	now     lease.Instant
	gens    map[Session]uint16 // by loop and slot
	issued  []uint64           // every token there was
	owners  uint64             // attempts so far; each has its own owner
	winner  uint64             // owner of the last attempt that was granted after waiting
	trace   []line
	every   int // of so many commands one is followed by a look at all there is; 0: each
	checks  int
	log     *log // nil: a shard without a journal
}

const (
	testLoops = 2
	testSlots = 3
)

// testKeys are of all kinds of storage, and their hashes of all kinds of
// collision: equal, equal in the half that counts, neighbours that want the
// same slot, and at the end of the table so that a run wraps around.
var testKeys = []struct {
	key  string
	hash uint64
}{
	{"a", 7},
	{"b", 7},
	{strings.Repeat("c", 24), 7},
	{strings.Repeat("d", 28), 0xabcd<<32 | 7},
	{strings.Repeat("e", 29), 0xabcd<<32 | 7},
	{strings.Repeat("f", 64), uint64(unspread(0xffffffff))},
	{strings.Repeat("g", 65), uint64(unspread(0xffffffff))},
	{strings.Repeat("h", 128), uint64(unspread(0xfffffffe))},
	{strings.Repeat("h", 127) + "i", uint64(unspread(0x00000001))},
	{"j", 0},
	{"k", 1 << 63},
	{"l", 123456789},
}

// unspread returns the hash with a given fragment.
func unspread(fragment uint32) uint32 {
	inverse := uint32(1)
	for range 5 { // Newton: each round doubles the bits that are right
		inverse *= 2 - 0x9e3779b1*inverse
	}
	return fragment * inverse
}

var (
	testWaits  = []uint8{0, 1, 1, 2, 3, 255}
	testLeases = []uint8{1, 1, 2, 3, 5, 250}
	testJumps  = []time.Duration{
		1, 99 * time.Microsecond, tick - 1, tick, tick + 1, time.Millisecond, time.Second / 2,
		time.Second - 1, time.Second, time.Second + 1, 3 * time.Second, 5 * time.Second, 20 * time.Second, time.Hour,
	}
	testLimits = []int{1, 2, 3, 4, 8, 10, 20, 1000}
)

// tick is how late a timer may be (contract of lease.Wheel).
const tick = 1 << 18 * time.Nanosecond

// run runs a program to its end and then the shard until it is empty.
func run(f failer, program []byte, journal bool) {
	f.Helper()
	r := &runner{failer: f, source: program, program: program, now: start, gens: map[Session]uint16{}}
	r.model = &model{
		failer:     r,
		maxWaiters: testLimits[r.next(6)],
		maxKeys:    testLimits[r.next(len(testLimits))],
		maxTotal:   testLimits[r.next(len(testLimits))],
		keys:       map[string]*modelKey{},
	}
	b := NewBudgets(r.model.maxKeys, r.model.maxTotal)
	if r.next(8) == 7 {
		r.model.last = lastToken - uint64(r.next(16))
		b.Tokens = NewTokens(r.model.last)
	}
	r.shard = New(Config{MaxWaiters: r.model.maxWaiters, Budgets: b, Loops: testLoops, Journal: journal}, r.now)
	if journal {
		r.log = newLog(r.model.last)
		r.model.journal = true
	}
	for len(r.program) > 0 {
		r.step()
	}
	r.drain()
}

// next takes the next byte of the program, below n.
func (r *runner) next(n int) int {
	if len(r.program) == 0 {
		return 0
	}
	b := int(r.program[0]) % n
	r.program = r.program[1:]
	return b
}

// step runs one command.
func (r *runner) step() {
	r.Helper()
	ops := 16
	if r.log != nil {
		ops = 20
	}
	switch op := r.next(ops); {
	case op < 6:
		r.acquire()
	case op < 10:
		r.release()
	case op < 11:
		r.leave()
	case op < 12:
		r.advance(r.now)
	case op < 13:
		r.jump(testJumps[r.next(len(testJumps))]) // and no Advance: the next command has to see to it
	case op < 14:
		r.advance(r.now.Add(testJumps[r.next(len(testJumps))]))
	case op < 15:
		if at := r.shard.Next(); at != lease.Never {
			r.advance(max(r.now, at.Add(-time.Duration(r.next(2)))))
		}
	case op < 16: // to the very end of a wait or a lease, or just before
		if at := r.model.earliest(r.next(8)); at != lease.Never {
			r.jump(max(0, at.Sub(r.now)-time.Duration(r.next(2))))
		}
	case op < 18:
		r.confirm(uint64(r.next(int(r.shard.Grants()-r.log.confirmed) + 1)))
	case op < 19:
		r.confirm(r.shard.Grants() - r.log.confirmed)
	default:
		if r.next(4) == 0 {
			r.newLead()
		}
	}
}

func (r *runner) session() Session {
	who := Session{Slot: uint32(r.next(testSlots)), Loop: uint16(r.next(testLoops))}
	gen := r.gens[who]
	who.Gen = gen
	return who
}

func (r *runner) acquire() {
	r.Helper()
	k := testKeys[r.next(len(testKeys))]
	r.tryAcquire(k.key, k.hash, r.session(), testWaits[r.next(len(testWaits))], testLeases[r.next(len(testLeases))])
}

func (r *runner) tryAcquire(key string, hash uint64, who Session, wait, lease uint8) Outcome {
	r.Helper()
	r.owners++
	a := Attempt{Key: []byte(key), Hash: hash, Owner: r.owners, Session: who, WaitSeconds: wait, LeaseSeconds: lease}
	outcome, token := r.shard.Acquire(r.now, &a)
	r.logf("acquire %.4s owner %d of %v wait %d lease %d: %v %d", key, a.Owner, who, wait, lease, outcome, token)
	r.model.acquire(r.now, &a, outcome, token, r.events(), r.shard.Keys())
	clear(a.Key) // the shard must not have kept it
	if outcome == Granted {
		r.issued = append(r.issued, token)
	}
	r.check()
	return outcome
}

func (r *runner) release() {
	r.Helper()
	k := testKeys[r.next(len(testKeys))]
	var token uint64
	switch kind := r.next(8); {
	case kind < 6:
		if held := r.model.keys[k.key]; held != nil {
			token = held.token
		}
	case kind < 7 && len(r.issued) > 0:
		token = r.issued[len(r.issued)-1-r.next(len(r.issued))%len(r.issued)]
	}
	r.tryRelease(k.key, k.hash, token)
}

func (r *runner) tryRelease(key string, hash, token uint64) bool {
	r.Helper()
	ok := r.shard.Release(r.now, []byte(key), hash, token)
	r.logf("release %.4s token %d: %v", key, token, ok)
	r.model.release(r.now, key, token, ok, r.events(), r.shard.Keys())
	r.check()
	return ok
}

func (r *runner) leave() {
	r.Helper()
	r.end(r.session())
}

// end ends a session; its slot's next user has another generation.
func (r *runner) end(who Session) {
	r.Helper()
	r.shard.Leave(r.now, who)
	r.logf("leave %v", who)
	r.model.leave(r.now, who, r.events(), r.shard.Keys())
	r.gens[Session{Slot: who.Slot, Loop: who.Loop}]++
	r.check()
}

func (r *runner) jump(d time.Duration) {
	r.now = r.now.Add(d)
	r.logf("%v later, at %v", d, r.now.Sub(start))
}

func (r *runner) advance(to lease.Instant) {
	r.Helper()
	r.now = to
	r.shard.Advance(to)
	r.logf("advance to %v", to.Sub(start))
	r.model.advance(r.now, r.events(), r.shard.Keys())
	r.check()
	if at := r.shard.Next(); at <= to {
		r.Fatalf("after Advance(%d) Next is %d", to, at)
	}
}

// drain lets time end everything, and looks whether the shard is as new.
func (r *runner) drain() {
	r.Helper()
	for n := 0; r.shard.Next() != lease.Never; n++ {
		if n > 2000 {
			r.Fatalf("not empty after %d advances", n)
		}
		if r.log != nil {
			r.confirm(r.shard.Grants() - r.log.confirmed)
		}
		r.advance(max(r.now, r.shard.Next()))
	}
	r.model.finish(r.shard)
	checkEmpty(r, r.shard)
}

// modelEvent is an event as the model reads it.
type modelEvent struct {
	Event
	key string
}

// events takes the shard's events away from it.
func (r *runner) events() []modelEvent {
	var events []modelEvent
	for _, e := range r.shard.Events() {
		events = append(events, modelEvent{e, string(r.shard.EventKey(&e))})
		r.logf("    %v %.4s owner %d of %v token %d", e.Kind, events[len(events)-1].key, e.Owner, e.Session, e.Token)
		if e.Kind == Granted {
			r.issued = append(r.issued, e.Token)
			r.winner = e.Owner
		}
	}
	r.shard.ClearEvents()
	if len(r.shard.Events()) != 0 || len(r.shard.arena) != 0 {
		r.Fatalf("%d events and %d B of keys after ClearEvents", len(r.shard.Events()), len(r.shard.arena))
	}
	return events
}

// check holds the shard's state against the model's and against itself.
func (r *runner) check() {
	r.Helper()
	if r.log != nil {
		r.replayRecords()
	}
	if r.checks++; r.checks%max(r.every, 1) == 0 {
		r.model.compare(r.now, r.shard)
		checkState(r, r.shard)
	}
}

func (r *runner) logf(format string, args ...any) {
	r.trace = append(r.trace, line{format, args})
}

// line is a line of the trace, made when it is shown.
type line struct {
	format string
	args   []any
}

func (l line) String() string { return fmt.Sprintf(l.format, l.args...) }

// Fatalf fails with the commands that led there.
func (r *runner) Fatalf(format string, args ...any) {
	r.Helper()
	done := r.source[:len(r.source)-len(r.program)]
	var trace strings.Builder
	for _, l := range r.trace[max(0, len(r.trace)-40):] {
		fmt.Fprintln(&trace, l)
	}
	r.failer.Fatalf("%s\nprogram %q\nends:\n%s", fmt.Sprintf(format, args...), done, &trace)
}
