package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// ErrNotLeader is wrapped by errors of what only the leader can do.
var ErrNotLeader = errors.New("this node does not lead")

// ErrRefused is wrapped by errors of changes that would do harm. Nothing has
// been done.
var ErrRefused = errors.New("refused")

// retryEvery is how often a change of the members is tried again: raft takes
// one at a time and drops the others.
const retryEvery = 100 * time.Millisecond

// do runs f on the core's goroutine and returns what it returns.
func (n *Node) do(ctx context.Context, f func(*core.Core) error) error {
	done := make(chan error, 1)
	n.inbox.call(func(c *core.Core) { done <- f(c) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stopped:
		return errors.New("this node has stopped")
	}
}

// until proposes a change again and again until done says that it is applied.
func (n *Node) until(ctx context.Context, done func(*view) bool, propose func(*core.Core) error) error {
	ticker := time.NewTicker(retryEvery)
	defer ticker.Stop()
	for !done(n.view.Load()) {
		err := n.do(ctx, func(c *core.Core) error {
			if c.Role() == core.Follower {
				return ErrNotLeader
			}
			return propose(c)
		})
		if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// AddMember takes a node in. It gets the log first and votes when it has caught
// up, which the leader sees to. The error wraps ErrNotLeader or ErrRefused, or
// is the context's: then the change may yet happen.
func (n *Node) AddMember(ctx context.Context, name, peer, client string) error {
	for _, err := range []error{checkName("name", name), checkAddr("peer", peer), checkAddr("client", client)} {
		if err != nil {
			return fmt.Errorf("%w: %w", err, ErrRefused)
		}
	}
	m := state.Member{ID: NodeID(name), Name: name, Peer: peer, Client: client}
	v := n.view.Load()
	for _, other := range v.Members {
		if other.Name == name || other.ID == m.ID || other.Peer == peer {
			return fmt.Errorf("node %s at %s is a member: %w", other.Name, other.Peer, ErrRefused)
		}
	}
	if len(v.Members) >= state.MaxMembers {
		return fmt.Errorf("there are %d members, more cannot be: %w", len(v.Members), ErrRefused)
	}
	if len(v.Learners) != 0 {
		return fmt.Errorf("another node is catching up; add one after the other: %w", ErrRefused)
	}
	return n.until(ctx, func(v *view) bool { _, ok := v.member(m.ID); return ok },
		func(c *core.Core) error { return c.AddLearner(m) })
}

// RemoveMember takes a node out for good. It is refused if the nodes that would
// be left could not agree on anything now. The leader hands the lead over first
// if it is the one to go, and then returns ErrNotLeader: the next leader can do
// it.
func (n *Node) RemoveMember(ctx context.Context, name string) error {
	v := n.view.Load()
	i := slices.IndexFunc(v.Members, func(m state.Member) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("node %s is no member: %w", name, ErrRefused)
	}
	id := v.Members[i].ID
	if id == n.id && len(v.Voters) > 1 {
		if err := n.Transfer(ctx, ""); err != nil {
			return err
		}
		return fmt.Errorf("the lead has been handed over, so that %s can be removed: %w", name, ErrNotLeader)
	}
	return n.until(ctx, func(v *view) bool { _, ok := v.member(id); return !ok },
		func(c *core.Core) error {
			if err := leavesMajority(c, n.id, id); err != nil {
				return err
			}
			return c.Remove(id)
		})
}

// leavesMajority holds a removal against who answers at present.
func leavesMajority(c *core.Core, self, removed uint64) error {
	voters := slices.DeleteFunc(slices.Clone(c.Conf().GetVoters()), func(id uint64) bool { return id == removed })
	active := 0
	if slices.Contains(voters, self) {
		active++
	}
	for p := range c.Others() {
		if p.Active && slices.Contains(voters, p.ID) {
			active++
		}
	}
	if active < len(voters)/2+1 {
		return fmt.Errorf("of the %d voters left only %d answer, which is no majority: %w", len(voters), active, ErrRefused)
	}
	return nil
}

// Transfer hands the lead to a node, or to the one that is furthest if name is
// empty, and returns when it leads. Turns that were not proposed by then are
// not executed. If it fails this node goes on leading.
func (n *Node) Transfer(ctx context.Context, name string) error {
	v := n.view.Load()
	to := uint64(0)
	if name != "" {
		i := slices.IndexFunc(v.Members, func(m state.Member) bool { return m.Name == name })
		if i < 0 {
			return fmt.Errorf("node %s is no member: %w", name, ErrRefused)
		}
		if to = v.Members[i].ID; to == v.Lead {
			return nil
		}
	}
	err := n.do(ctx, func(c *core.Core) error {
		if c.Role() == core.Follower {
			return ErrNotLeader
		}
		return c.Transfer(to)
	})
	if err != nil {
		return err
	}
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		if v := n.view.Load(); v.Role == core.Follower && v.Lead != 0 && v.Lead != n.id {
			return nil
		}
		going := false
		if err := n.do(ctx, func(c *core.Core) error { going = c.Role() == core.Follower || c.Transferring(); return nil }); err != nil {
			return err
		}
		if !going {
			return fmt.Errorf("the other node did not take the lead in time: %w", ErrRefused)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
