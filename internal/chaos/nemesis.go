package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A nemesis breaks things, one after another, now and then two at once.
type nemesis struct {
	cluster *cluster
	watch   *watch
	random  *rand.Rand
	clients int
	deck    []fault // of these each is drawn once before any is drawn again
	drawn   int
	say     func(format string, args ...any)

	done     map[string]int // faults by kind
	problems []string       // what a fault showed to be wrong
}

// A fault breaks something. It returns what it did, and how it is undone; a
// nil heal is a fault that is over when it returns.
type fault struct {
	name   string
	single bool // it makes sense with one server
	inject func(ctx context.Context, n *nemesis) (what string, heal func() error, err error)
}

func newNemesis(c *cluster, w *watch, seed uint64, clients int, only []string, say func(string, ...any)) *nemesis {
	n := &nemesis{
		cluster: c, watch: w, clients: clients, say: say, done: map[string]int{},
		random: rand.New(rand.NewPCG(seed, 1<<32)),
	}
	for _, f := range faults {
		if (f.single || !c.single) && (len(only) == 0 || slices.Contains(only, f.name)) {
			n.deck = append(n.deck, f)
		}
	}
	return n
}

// Faults are the names of what a run can do to a cluster.
func Faults() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// next draws a fault.
func (n *nemesis) next() fault {
	if n.drawn%len(n.deck) == 0 {
		n.random.Shuffle(len(n.deck), func(i, j int) { n.deck[i], n.deck[j] = n.deck[j], n.deck[i] })
	}
	n.drawn++
	return n.deck[(n.drawn-1)%len(n.deck)]
}

// round does one fault, or two that overlap, and undoes them. It returns an
// error when the tools fail, not when the cluster does.
func (n *nemesis) round(ctx context.Context) error {
	count := 1
	if n.random.IntN(4) == 0 {
		count = 2
	}
	var heals []func() error
	for range count {
		f := n.next()
		what, heal, err := f.inject(ctx, n)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		n.done[f.name]++
		n.say("%s: %s", f.name, what)
		if heal != nil {
			heals = append(heals, heal)
			n.sleep(ctx, n.between(300*time.Millisecond, time.Second))
		}
	}
	if len(heals) > 0 {
		n.sleep(ctx, n.between(300*time.Millisecond, 3500*time.Millisecond))
	}
	for _, heal := range heals {
		if err := heal(); err != nil {
			return err
		}
	}
	return n.recover(ctx)
}

// recover starts what does not run.
func (n *nemesis) recover(ctx context.Context) error {
	for _, node := range n.cluster.current() {
		if err, ended := node.reap(); ended {
			n.problem("%s ended by itself: %v", node.name, err)
		}
	}
	return n.cluster.startMembers(ctx)
}

func (n *nemesis) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	n.problems = append(n.problems, text)
	n.say("PROBLEM: %s", text)
}

func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.random.Int64N(int64(most-least)))
}

func (n *nemesis) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// victim draws a member: the leader every other time, when it is known.
func (n *nemesis) victim() *node {
	if n.random.IntN(2) == 0 {
		if leader := n.leader(); leader != nil {
			return leader
		}
	}
	return n.any()
}

// leader is the member that is known to lead, or nil.
func (n *nemesis) leader() *node {
	name := n.watch.leader()
	for _, m := range n.cluster.current() {
		if m.name == name {
			return m
		}
	}
	return nil
}

// any draws a member.
func (n *nemesis) any() *node { return n.but(nil) }

// but draws a member that is not the given one.
func (n *nemesis) but(other *node) *node {
	nodes := slices.DeleteFunc(n.cluster.current(), func(m *node) bool { return m == other })
	return nodes[n.random.IntN(len(nodes))]
}

// others are the members but one.
func (n *nemesis) others(but *node) []*node {
	return slices.DeleteFunc(n.cluster.current(), func(m *node) bool { return m == but })
}
