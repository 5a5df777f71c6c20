package shard

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"ticketing/lease"
)

// An edge is an instant at which two things may happen to a waiter at once. Each
// is carried out for a moment around that instant: in either order, in the same
// nanosecond, one apart, and a tick of the wheel apart, in every phase of a tick.
// The model judges each command, so that what is found is: a free key with live
// waiters, a second holder, a key that stays shut, an attempt with two outcomes
// or none.
type edge struct {
	name string
	// hold and wait are the holder's lease and the first waiter's wait. The edge
	// is a second after both began.
	hold, wait uint8
	one, other func(r *edgeRunner)
}

var edges = []edge{
	{"wait end and grant", 5, 1, (*edgeRunner).tick, (*edgeRunner).giveUp},
	{"release and expiry", 1, 5, (*edgeRunner).giveUp, (*edgeRunner).tick},
	{"disconnect and grant", 5, 5, (*edgeRunner).disconnect, (*edgeRunner).giveUp},
	{"cancel and hand-over", 1, 5, (*edgeRunner).disconnect, (*edgeRunner).tick},
}

// edgeOffsets are the instants around an edge.
var edgeOffsets = []time.Duration{-tick - 1, -tick, 1 - tick, -2, -1, 0, 0, 0, 1, 2, tick - 1, tick, tick + 1}

// edgeRounds is how often each edge is tried: a million times with SOAK, and a
// tenth of that without the race detector, which takes its time.
func edgeRounds() int {
	switch {
	case os.Getenv("SOAK") != "":
		return 1_000_000
	case raceEnabled:
		return 10_000
	}
	return 100_000
}

// unaided spares the millions of commands the looking up of who calls Helper.
type unaided struct{ *testing.T }

func (unaided) Helper() {}

// edgeRunner runs rounds on one shard that is empty between them.
type edgeRunner struct {
	*runner
	random *rand.Rand
	key    string
	hash   uint64
	waiter Session
	answer string         // of the last release
	seen   map[string]int // what came of the rounds
}

// TestEdges is the race of two things for one waiter, again and again.
func TestEdges(t *testing.T) {
	for _, e := range edges {
		t.Run(e.name, func(t *testing.T) {
			const seed = 1
			r := &edgeRunner{
				runner: &runner{failer: unaided{t}, now: start, gens: map[Session]uint16{}, every: 1009},
				random: rand.New(rand.NewPCG(seed, uint64(len(e.name)))), seen: map[string]int{},
			}
			r.model = &model{failer: r, maxWaiters: 10, maxKeys: 1000, maxTotal: 1000, keys: map[string]*modelKey{}}
			r.shard = New(Config{MaxWaiters: 10, Budgets: NewBudgets(1000, 1000), Loops: testLoops}, r.now)
			rounds := edgeRounds()
			for range rounds {
				r.round(e)
			}
			r.drain()
			t.Log(r.seen)
			often := 0
			for _, n := range r.seen {
				if n >= rounds/20 {
					often++
				}
			}
			if often < 2 {
				t.Fatalf("the edge is hardly met: %v", r.seen)
			}
		})
	}
}

// round sets the scene, lets both things happen and looks how it ended.
func (r *edgeRunner) round(e edge) {
	r.trace, r.issued, r.winner = r.trace[:0], r.issued[:0], 0
	r.answer = ""
	r.jump(time.Duration(r.random.Int64N(int64(3 * tick))))
	k := testKeys[r.random.IntN(len(testKeys))]
	r.key, r.hash = k.key, k.hash
	r.waiter = r.sessionIn(1, 1)
	r.expect(r.tryAcquire(r.key, r.hash, r.sessionIn(0, 0), 0, e.hold), Granted)
	at := r.now.Add(time.Second)
	r.expect(r.tryAcquire(r.key, r.hash, r.waiter, e.wait, 9), Parked)
	first := r.owners
	behind := r.random.IntN(3)
	for range behind {
		r.expect(r.tryAcquire(r.key, r.hash, r.sessionIn(2, 0), 200, 9), Parked)
	}

	one, other := at.Add(r.offset()), at.Add(r.offset())
	if one < other || one == other && r.random.IntN(2) == 0 {
		r.at(one, e.one)
		r.at(other, e.other)
	} else {
		r.at(other, e.other)
		r.at(one, e.one)
	}
	r.at(max(r.now, at.Add(2*tick)), (*edgeRunner).tick)

	ends := "nobody"
	switch holder := r.model.keys[r.key]; {
	case holder == nil || holder.ends <= r.now:
	case r.winner == first:
		ends = "the first"
	default:
		ends = "the next"
	}
	r.seen[r.answer+ends+" holds it"]++
	// Whoever holds the key gives it up: it goes through the queue and is free.
	for n := 0; n < behind+2 && r.model.keys[r.key] != nil; n++ {
		r.giveUp()
	}
	if r.model.keys[r.key] != nil || r.shard.Keys() != 0 || r.shard.Waiters() != 0 {
		r.Fatalf("%d keys stay shut, %d wait", r.shard.Keys(), r.shard.Waiters())
	}
}

func (r *edgeRunner) offset() time.Duration { return edgeOffsets[r.random.IntN(len(edgeOffsets))] }

func (r *edgeRunner) at(when lease.Instant, do func(*edgeRunner)) {
	r.jump(when.Sub(r.now))
	do(r)
}

func (r *edgeRunner) expect(got, want Outcome) {
	if got != want {
		r.Fatalf("%v, want %v", got, want)
	}
}

func (r *edgeRunner) sessionIn(slot uint32, loop uint16) Session {
	who := Session{Slot: slot, Loop: loop}
	who.Gen = r.gens[who]
	return who
}

// tick is what time alone does: by the loop's alarm, or by a command on
// another key.
func (r *edgeRunner) tick() {
	if r.random.IntN(4) == 0 {
		r.tryRelease("another", 99, 1)
		return
	}
	r.advance(r.now)
}

// giveUp releases the key by whoever is the last known holder.
func (r *edgeRunner) giveUp() {
	var token uint64
	if k := r.model.keys[r.key]; k != nil {
		token = k.token
	}
	r.answer = "N, "
	if r.tryRelease(r.key, r.hash, token) {
		r.answer = "R, "
	}
}

// disconnect ends the first waiter's session; the slot's next user comes at once.
func (r *edgeRunner) disconnect() { r.end(r.waiter) }
