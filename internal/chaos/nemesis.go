package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ticketing/internal/chaos/history"
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
	found    []history.Violation
}

// A fault breaks something. It returns what it did, and how it is undone; a
// nil heal is a fault that is over when it returns.
type fault struct {
	name   string
	single bool // it makes sense with one server
	image  bool // it needs disks that can fail
	wire   bool // it is about the network alone, so that it may overlap with any other
	inject func(ctx context.Context, n *nemesis) (what string, heal func() error, err error)
}

func newNemesis(c *cluster, w *watch, seed uint64, clients int, only []string, say func(string, ...any)) *nemesis {
	n := &nemesis{
		cluster: c, watch: w, clients: clients, say: say, done: map[string]int{},
		random: rand.New(rand.NewPCG(seed, 1<<32)),
	}
	for _, f := range faults {
		if (f.single || !c.single) && (!f.image || c.disk == image) && (len(only) == 0 || slices.Contains(only, f.name)) {
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

// second draws a fault that may overlap with any other; false if there is none.
func (n *nemesis) second() (fault, bool) {
	wires := slices.DeleteFunc(slices.Clone(n.deck), func(f fault) bool { return !f.wire })
	if len(wires) == 0 {
		return fault{}, false
	}
	return wires[n.random.IntN(len(wires))], true
}

// round does one fault, or two that overlap, and undoes them. It returns an
// error when the tools fail, not when the cluster does.
func (n *nemesis) round(ctx context.Context) error {
	heals, err := n.inject(ctx, n.next(), nil)
	if err == nil && len(heals) > 0 && n.random.IntN(4) == 0 {
		if f, ok := n.second(); ok {
			n.sleep(ctx, n.between(300*time.Millisecond, time.Second))
			heals, err = n.inject(ctx, f, heals)
		}
	}
	if len(heals) > 0 && err == nil {
		n.sleep(ctx, n.between(300*time.Millisecond, 3500*time.Millisecond))
	}
	for _, heal := range heals {
		err = errors.Join(err, heal())
	}
	if err != nil {
		return err
	}
	return n.revive(ctx)
}

func (n *nemesis) inject(ctx context.Context, f fault, heals []func() error) ([]func() error, error) {
	what, heal, err := f.inject(ctx, n)
	if err != nil {
		return heals, fmt.Errorf("%s: %w", f.name, err)
	}
	n.done[f.name]++
	n.say("%s: %s", f.name, what)
	if heal != nil {
		heals = append(heals, heal)
	}
	return heals, nil
}

// revive starts the members that do not run.
func (n *nemesis) revive(ctx context.Context) error {
	for _, node := range n.cluster.current() {
		if err, ended := node.reap(); ended {
			n.problem("%s ended by itself: %v; its log: %s", node.name, err, node.logFile())
		}
	}
	return n.cluster.startMembers(context.WithoutCancel(ctx))
}

// reconcile makes members and processes agree with what the leader says: of a
// change that was not answered it is not known whether it was made.
func (n *nemesis) reconcile(ctx context.Context) error {
	leader := n.leader()
	if n.cluster.single || leader == nil {
		return nil
	}
	s, err := n.watch.ask(ctx, leader)
	if err != nil || !s.Serving {
		return nil // the next time, then
	}
	members := map[string]bool{}
	for _, m := range s.Members {
		members[m.Name] = true
	}
	for _, m := range n.cluster.nodes {
		if n.cluster.members[m.name] && !members[m.name] {
			n.say("%s has left after all", m.name)
			m.stop(stopping)
			if err := m.wipe(); err != nil {
				return err
			}
		}
	}
	n.cluster.members = members
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
