package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ticketing/cluster"
	"ticketing/cluster/core"
	"ticketing/internal/admin"
)

const (
	// memberPatience is how long the consensus may take to tell about itself;
	// it is busy for as long as a write to its disk takes.
	memberPatience = time.Second

	// handOverPatience is how long a node that ends waits for another to take
	// the lead; then it is taken from it, by an election.
	handOverPatience = 3 * time.Second
)

// memberView is a node of a cluster as the admin endpoint sees it.
type memberView struct{ node *cluster.Node }

// Status implements admin.Cluster.
func (v memberView) Status() admin.ClusterStatus {
	ctx, cancel := context.WithTimeout(context.Background(), memberPatience)
	defer cancel()
	s := v.node.Status(ctx)
	status := admin.ClusterStatus{
		Cluster: s.Cluster, Node: s.Node, Role: "follower", Serving: s.Role == core.Leading, Term: s.Term,
		Leader: s.Leader.Name, LeaderClient: s.Leader.Client,
		Commit: s.Commit, Applied: s.Applied, SnapshotIndex: s.SnapshotIndex, Keys: s.Keys, Token: s.Token,
		Members: make([]admin.ClusterMember, 0, len(s.Members)),
		Counts: admin.ClusterCounts{
			Proposals: s.Counts.Entries, Turns: s.Counts.Turns, Reads: s.Counts.Reads, Dropped: s.Counts.Dropped,
			Elections: s.Counts.Elections, Leaders: s.Leaders, Misfits: s.Counts.Misfits, Snapshots: s.Saved,
		},
		Fsync: s.Fsync,
	}
	switch {
	case s.Role != core.Follower:
		status.Role = "leader"
	case s.Learner:
		status.Role = "learner"
	}
	for i := range s.Members {
		m := &s.Members[i]
		member := admin.ClusterMember{
			Name: m.Name, ID: hex(m.ID), Peer: m.Peer, Client: m.Client, Instance: m.Instance, Voter: m.Voter,
		}
		if m.Known {
			member.Active, member.Match = &m.Active, &m.Match
		}
		status.Members = append(status.Members, member)
	}
	if s.Applied != 0 {
		status.Hashes = append(status.Hashes, admin.StateHash{Index: s.Applied, Hash: hex(s.Hash)})
	}
	for _, h := range s.Hashes {
		if h.Index != s.Applied {
			status.Hashes = append(status.Hashes, admin.StateHash{Index: h.Index, Hash: hex(h.Hash)})
		}
	}
	return status
}

func hex(n uint64) string { return fmt.Sprintf("%016x", n) }

// Add implements admin.Cluster.
func (v memberView) Add(ctx context.Context, name, peer, client string) error {
	return adminError(v.node.AddMember(ctx, name, peer, client))
}

// Remove implements admin.Cluster.
func (v memberView) Remove(ctx context.Context, name string) error {
	return adminError(v.node.RemoveMember(ctx, name))
}

// Transfer implements admin.Cluster.
func (v memberView) Transfer(ctx context.Context, name string) error {
	return adminError(v.node.Transfer(ctx, name))
}

// adminError tells the one error apart that the endpoint has more to say about.
func adminError(err error) error {
	if errors.Is(err, cluster.ErrNotLeader) {
		return fmt.Errorf("%w: %w", err, admin.ErrNotLeader)
	}
	return err
}

// takePart runs the node's part in the cluster until leave is called, which
// returns when it has ended. An error that ends it before is sent to failed.
func (n *node) takePart(ctx context.Context) (failed <-chan error, leave func()) {
	errs := make(chan error, 1)
	if n.member == nil {
		return errs, func() {}
	}
	// Not ended with ctx: what the drain decides has to be agreed on.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.member.Run(ctx, n.server); err != nil && ctx.Err() == nil {
			errs <- err
		}
	}()
	return errs, func() { cancel(); <-ended }
}

// handOver gives the lead away before a node that leads ends, so that clients
// find another leader at once and not after an election.
func (n *node) handOver() {
	if n.member == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverPatience)
	defer cancel()
	if n.member.Status(ctx).Role == core.Follower {
		return
	}
	start := time.Now()
	if err := n.member.Transfer(ctx, ""); err != nil {
		n.log.Warn("the lead was not handed over: the others elect a leader when this node has ended", "error", err)
		return
	}
	n.log.Info("the lead was handed over", "took", time.Since(start))
}
