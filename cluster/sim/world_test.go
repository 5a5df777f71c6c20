package sim

import (
	"container/heap"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/core"
)

// moment is virtual time in ns.
type moment int64

func (m moment) add(d time.Duration) moment { return m + moment(d) }

// event is something that happens at a moment.
type event struct {
	at  moment
	seq uint64 // of two at one moment the one made first is first
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// mistakes are put into a node on purpose, to see that the judge notices.
type mistakes struct {
	answerBeforeCommit bool // answers do not wait for the log
	leasesGoOn         bool // a new leader gives holders no full lease
	expireAnyToken     bool // the end of a lease ends whoever holds the key then
	readWithoutProof   bool // N and T are answered by whoever believes that it leads

	cutsOnly bool // no mistake: the only faults are leaders cut off, for it shows in nothing else
}

// world is one run.
type world struct {
	rng    *mrand.Rand
	now    moment
	agenda agenda
	events uint64
	wrong  mistakes

	nodes   []*node
	clients []*client
	cut     map[[2]uint64]bool // no message from the first to the second
	loss    float64            // share of messages lost, and of those doubled
	delay   time.Duration      // up to which a message takes
	calm    bool               // no more faults
	judge   judge
}

const (
	loopsPerNode = 2
	clients      = 6
	keys         = 4
	faultsUntil  = moment(12 * time.Second)
	endsAt       = moment(20 * time.Second)
)

// newWorld makes the world of a seed.
func newWorld(seed uint64, wrong mistakes) *world {
	w := &world{
		rng:   mrand.New(mrand.NewPCG(seed, 0x5eed)),
		wrong: wrong,
		cut:   map[[2]uint64]bool{},
		delay: time.Millisecond,
	}
	w.judge.init(w)
	rand.Reader = mrand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}) // raft's election timeouts
	for id := uint64(1); id <= 3; id++ {
		w.nodes = append(w.nodes, newNode(w, id))
	}
	for i := range clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	return w
}

func (w *world) at(t moment, do func()) {
	w.events++
	heap.Push(&w.agenda, event{max(t, w.now), w.events, do})
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now.add(d), do) }

// upTo is a random duration below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

func (w *world) node(id uint64) *node {
	if id < 1 || id > uint64(len(w.nodes)) {
		return nil
	}
	return w.nodes[id-1]
}

// send lets messages go their way.
func (w *world) send(from uint64, messages []*raftpb.Message) {
	for _, m := range messages {
		copies := 1
		if w.chance(w.loss) {
			copies = w.rng.IntN(2) * 2
		}
		if w.cut[[2]uint64{from, m.GetTo()}] || copies == 0 {
			w.lost(from, m)
			continue
		}
		for range copies {
			w.after(50*time.Microsecond+w.upTo(w.delay), func() { w.arrive(from, m) })
		}
	}
}

func (w *world) arrive(from uint64, m *raftpb.Message) {
	to := w.node(m.GetTo())
	if to == nil || !to.up || w.cut[[2]uint64{from, m.GetTo()}] {
		w.lost(from, m)
		return
	}
	to.deliver(func() {
		_ = to.core.Step(m) // what it ignores is as good as lost
	})
	if m.GetType() == raftpb.MsgSnap {
		w.node(from).deliver(func() { w.node(from).core.SnapshotSent(m.GetTo(), true) })
	}
}

// lost tells the sender, as connections do, of some of the messages that did not
// arrive; of snapshots always.
func (w *world) lost(from uint64, m *raftpb.Message) {
	n := w.node(from)
	if m.GetType() == raftpb.MsgSnap {
		n.deliver(func() { n.core.SnapshotSent(m.GetTo(), false) })
	} else if w.chance(0.3) {
		n.deliver(func() { n.core.Unreachable(m.GetTo()) })
	}
}

// run runs the world to its end and returns what is wrong with it.
func (w *world) run() error {
	w.after(0, w.trouble)
	w.at(faultsUntil, w.heal)
	w.at(endsAt.add(-5*time.Second), func() {
		for _, c := range w.clients {
			c.last = true
		}
	}) // what they asked is answered by then, or they gave it up
	for len(w.agenda) > 0 && w.now < endsAt && w.judge.verdict == nil {
		e := heap.Pop(&w.agenda).(event)
		w.now = e.at
		e.do()
	}
	w.judge.end()
	return w.judge.verdict
}

// trouble makes one fault and plans the next.
func (w *world) trouble() {
	if w.calm {
		return
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	kind := w.rng.IntN(10)
	if w.wrong.cutsOnly {
		kind = 2 * w.rng.IntN(2)
	}
	switch kind {
	case 0, 1: // cut a node off, in one direction or both, from one or all
		if l := w.leader(); l != nil && w.chance(0.7) {
			n = l
		}
		both, all := w.chance(0.6), w.chance(0.7)
		for _, other := range w.nodes {
			if other != n && (all || w.chance(0.5)) {
				w.cut[[2]uint64{n.id, other.id}] = true
				w.cut[[2]uint64{other.id, n.id}] = both
			}
		}
	case 2, 3:
		clear(w.cut)
	case 4:
		if n.up {
			n.crash()
			w.after(w.upTo(3*time.Second), n.start)
		}
	case 5: // the machine is stopped and goes on
		n.pausedUntil = max(n.pausedUntil, w.now.add(w.upTo(2*time.Second)))
		w.at(n.pausedUntil, n.wake)
	case 6:
		w.loss = []float64{0, 0, 0.05, 0.2}[w.rng.IntN(4)]
		w.delay = []time.Duration{time.Millisecond, 10 * time.Millisecond, 200 * time.Millisecond}[w.rng.IntN(3)]
	case 7:
		n.deliver(func() { _ = n.core.Transfer(0) }) // of who does not lead: nothing
	case 8:
		n.deliver(n.changeMembers)
	case 9:
		n.deliver(n.snapshot)
	}
	w.after(w.upTo(700*time.Millisecond), w.trouble)
}

// heal ends all faults.
func (w *world) heal() {
	w.calm, w.loss, w.delay = true, 0, time.Millisecond
	clear(w.cut)
	for _, n := range w.nodes {
		n.pausedUntil = 0
		if !n.up {
			n.start()
		}
		n.wake()
	}
}

// leader returns the node that leads, as far as nodes know; nil if none does.
func (w *world) leader() *node {
	var best *node
	for _, n := range w.nodes {
		if n.up && n.core.Role() == core.Leading && (best == nil || n.core.Term() > best.core.Term()) {
			best = n
		}
	}
	return best
}

func keyName(i int) string { return fmt.Sprint("key-", i) }
