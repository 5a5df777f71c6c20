package chaos

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// fullDisk takes the room on a node's disk. The node may end, if it says why;
// its start on a full disk may fail.
func fullDisk(ctx context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	empty, err := one.fill()
	if err != nil {
		return "", nil, err
	}
	what := one.name
	if n.random.IntN(2) == 0 { // what it finds when it starts is another matter
		one.kill()
		if err := one.start(ctx); err != nil && !errors.Is(err, context.Canceled) {
			what += ", which does not start on it"
		} else {
			what += ", which starts on it"
		}
	}
	return what, func() error {
		if err, ended := one.reap(); ended {
			n.say("full disk: %s ended: %v", one.name, err)
			if err == nil {
				n.problem("%s ended on a full disk as if all were well", one.name)
			}
		}
		return empty()
	}, nil
}

// noticing is how long a node may run on a disk that fails every write.
const noticing = 10 * time.Second

// diskFailure makes every write of a node fail. It must end and say so, and goes
// on when it has its disk back, without what was not synced.
func diskFailure(_ context.Context, n *nemesis) (string, func() error, error) {
	one := n.victim()
	if err := one.cutPower(); err != nil {
		return "", nil, err
	}
	return one.name, func() error {
		err, ended := one.awaitEnd(noticing)
		switch {
		case !ended:
			n.problem("%s runs on a disk that has failed for %v", one.name, noticing)
			one.kill()
		case err == nil:
			n.problem("%s ended on a failed disk as if all were well", one.name)
		default:
			n.say("disk failure: %s ended: %v", one.name, err)
		}
		return one.repair()
	}, nil
}

// powerCut ends nodes at an instant, with the loss of all that was not synced:
// one of them, or all.
func powerCut(_ context.Context, n *nemesis) (string, func() error, error) {
	nodes, what := n.cluster.current(), "every node"
	if n.random.IntN(2) == 0 {
		one := n.victim()
		nodes, what = []*node{one}, one.name
	}
	for _, m := range nodes {
		m.signal(syscall.SIGSTOP)
	}
	for _, m := range nodes {
		if err := m.cutPower(); err != nil {
			return "", nil, err
		}
		m.kill()
	}
	return what, func() error {
		return each(nodes, (*node).repair)
	}, nil
}
