package chaos

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// faults is everything that is done to a cluster.
var faults = []fault{
	{name: "cut one way", wire: true, inject: cutOneWay},
	{name: "cut both ways", wire: true, inject: cutBothWays},
	{name: "bridge", wire: true, inject: bridge},
	{name: "deaf or dumb", wire: true, inject: deafOrDumb},
	{name: "clients cut", single: true, wire: true, inject: clientsCut},
	{name: "loss", wire: true, inject: lossBetweenNodes},
	{name: "client loss", single: true, wire: true, inject: lossToClients},
	{name: "reset", single: true, inject: resets},
	{name: "pause", single: true, inject: pause},
	{name: "pause all", inject: pauseAll},
	{name: "kill", inject: kill},
	{name: "kill all", inject: killAll},
	{name: "restart", inject: restart},
	{name: "full disk", inject: fullDisk},
	{name: "disk failure", image: true, inject: diskFailure},
	{name: "power cut", image: true, inject: powerCut},
	{name: "transfer", inject: transfer},
	{name: "two leaders", inject: twoLeaders},
	{name: "members", inject: changeMembers},
}

// cutOneWay drops what one node sends to another.
func cutOneWay(_ context.Context, n *nemesis) (string, func() error, error) {
	from := n.victim()
	to := n.but(from)
	heal, err := n.cluster.net.add(rule{from.ip, to.ip, dropAll})
	return fmt.Sprintf("%s cannot reach %s", from.name, to.name), heal, err
}

// cutBothWays parts one node from the others; clients still reach it.
func cutBothWays(_ context.Context, n *nemesis) (string, func() error, error) {
	alone := n.victim()
	var rules []rule
	for _, m := range n.others(alone) {
		rules = append(rules, both(alone.ip, m.ip, dropAll)...)
	}
	heal, err := n.cluster.net.add(rules...)
	return alone.name + " is alone", heal, err
}

// bridge parts two nodes that both reach the third.
func bridge(_ context.Context, n *nemesis) (string, func() error, error) {
	a := n.victim()
	b := n.but(a)
	heal, err := n.cluster.net.add(both(a.ip, b.ip, dropAll)...)
	return fmt.Sprintf("%s and %s cannot reach each other", a.name, b.name), heal, err
}

// deafOrDumb drops all that one node hears from the others, or tells them.
func deafOrDumb(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	deaf := n.random.IntN(2) == 0
	var rules []rule
	for _, m := range n.others(one) {
		if deaf {
			rules = append(rules, rule{m.ip, one.ip, dropAll})
		} else {
			rules = append(rules, rule{one.ip, m.ip, dropAll})
		}
	}
	heal, err := n.cluster.net.add(rules...)
	if deaf {
		return one.name + " hears no node", heal, err
	}
	return one.name + " reaches no node", heal, err
}

// clientsCut parts one node from half of the clients, one way or both.
func clientsCut(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	way := n.random.IntN(3)
	var rules []rule
	for i := range n.clients {
		if i%2 == 0 {
			continue
		}
		if way != 0 {
			rules = append(rules, rule{one.ip, clientIP(i), dropAll})
		}
		if way != 1 {
			rules = append(rules, rule{clientIP(i), one.ip, dropAll})
		}
	}
	heal, err := n.cluster.net.add(rules...)
	return fmt.Sprintf("half of the clients and %s, %s", one.name, [...]string{"to it", "from it", "both ways"}[way]), heal, err
}

// lossBetweenNodes drops a share of what nodes send each other.
func lossBetweenNodes(_ context.Context, n *nemesis) (string, func() error, error) {
	share := 5 + n.random.IntN(36)
	var rules []rule
	for _, a := range n.cluster.current() {
		for _, b := range n.others(a) {
			rules = append(rules, rule{a.ip, b.ip, dropShare(share)})
		}
	}
	heal, err := n.cluster.net.add(rules...)
	return fmt.Sprintf("%d %% between all nodes", share), heal, err
}

// lossToClients drops a share of what goes between nodes and clients.
func lossToClients(_ context.Context, n *nemesis) (string, func() error, error) {
	share := 5 + n.random.IntN(26)
	var rules []rule
	for _, m := range n.cluster.current() {
		for i := range n.clients {
			rules = append(rules, both(m.ip, clientIP(i), dropShare(share))...)
		}
	}
	heal, err := n.cluster.net.add(rules...)
	return fmt.Sprintf("%d %% between nodes and clients", share), heal, err
}

// resets ends connections, some times in a row.
func resets(ctx context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	times := 1 + n.random.IntN(4)
	for range times {
		for _, m := range n.others(one) {
			if err := reset(one.ip, m.ip); err != nil {
				return "", nil, err
			}
		}
		if err := reset(one.ip, clientIP(n.random.IntN(n.clients))); err != nil {
			return "", nil, err
		}
		n.sleep(ctx, n.between(time.Millisecond, 300*time.Millisecond))
	}
	return fmt.Sprintf("connections of %s, %d times", one.name, times), nil, nil
}

// pause stops a node, which does not notice, for longer or shorter than an
// election takes.
func pause(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	one.signal(syscall.SIGSTOP)
	return one.name, func() error { one.signal(syscall.SIGCONT); return nil }, nil
}

// pauseAll stops every node at once, and lets them go on one after another.
func pauseAll(_ context.Context, n *nemesis) (string, func() error, error) {
	nodes := n.cluster.current()
	for _, m := range nodes {
		m.signal(syscall.SIGSTOP)
	}
	return "every node", func() error {
		for _, i := range n.random.Perm(len(nodes)) {
			nodes[i].signal(syscall.SIGCONT)
			time.Sleep(n.between(0, 200*time.Millisecond))
		}
		return nil
	}, nil
}

// gone heals a fault of which nothing is left to undo but that nodes do not run.
func gone() error { return nil }

// kill ends a node as a crash does.
func kill(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	one.kill()
	return one.name, gone, nil
}

// killAll ends every node within a moment.
func killAll(_ context.Context, n *nemesis) (string, func() error, error) {
	for _, i := range n.random.Perm(len(n.cluster.current())) {
		n.cluster.current()[i].kill()
	}
	return "every node", gone, nil
}

// stopping is how long a node may take to end: its drain, and handing over.
const stopping = 15 * time.Second

// restart ends a node as an operator does, and it is started again at once.
func restart(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	if err := one.stop(stopping); err != nil {
		n.problem("%s was asked to end: %v", one.name, err)
	}
	return one.name, nil, nil
}

// transfer moves the lead to a node of our choice. Who waits at the old leader
// is told at once.
func transfer(ctx context.Context, n *nemesis) (string, func() error, error) {
	leader := n.leader()
	if leader == nil {
		return "no leader is known", nil, nil
	}
	to := n.but(leader)
	what := fmt.Sprintf("%s to %s", leader.name, to.name)
	waiter, err := post(ctx, leader, fmt.Sprint("sentinel", n.drawn))
	if err != nil {
		return what + ": " + err.Error(), nil, nil // it does not lead any more
	}
	if err := n.cluster.control(ctx, leader, "transfer", to.name); err != nil {
		waiter.conn.Close()
		return what + ", refused: " + err.Error(), nil, nil // others are at work too
	}
	said, took, err := waiter.told()
	if err != nil || said == "" || said[0] != 'M' && said[0] != 'L' && said != "Eno_leader" {
		n.problem("the lead moved from %s, and a waiter there was told %q, %v, after %v", leader.name, said, err, took)
	}
	return fmt.Sprintf("%s, a waiter was told %s after %v", what, said, took.Round(time.Microsecond)), nil, nil
}

// changeMembers adds the spare node, or removes a node that is then the spare.
func changeMembers(ctx context.Context, n *nemesis) (string, func() error, error) {
	return n.cluster.changeMembers(ctx, n)
}
