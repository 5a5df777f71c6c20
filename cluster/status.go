package cluster

import (
	"context"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
	"ticketing/shard"
)

// Status is what a node knows of itself and its cluster.
type Status struct {
	Cluster, Node string
	ID            uint64
	Role          core.Role
	Learner       bool // gets the log and does not vote yet
	Term          uint64
	Leader        state.Member // ID 0: none is known

	Commit        uint64 // index known to be agreed on
	Applied       uint64 // index the state is of
	SnapshotIndex uint64
	Keys          int    // held
	Token         uint64 // the last granted

	Passes, Waiting int // turns that are proposed in as many passes; that wait to be

	Members  []Member
	Counts   core.Counters
	Deposes  uint64
	Leaders  uint64 // changes of the leader seen
	Saved    uint64 // snapshots written
	Received uint64 // snapshots that came from a leader
	Dropped  uint64 // messages of other nodes, because too many waited
	Fsync    shard.Histogram

	// Hash is of the state at Applied; Hashes are of earlier indexes that nodes
	// have in common.
	Hash   uint64
	Hashes []Hash
}

// Member is a member, and what the leader knows of its progress.
type Member struct {
	state.Member
	Voter  bool
	Known  bool   // this node leads, so that Active and Match mean something
	Active bool   // heard of lately
	Match  uint64 // the last entry on its disk
}

// Hash is that of the state after the entry at Index.
type Hash struct{ Index, Hash uint64 }

// hashesShown is how many hashes of the past a Status has.
const hashesShown = 8

// Status asks the node. Before it has found its cluster, or when ctx ends, most
// of it is empty.
func (n *Node) Status(ctx context.Context) Status {
	s := Status{Cluster: n.cfg.Cluster, Node: n.cfg.Node, ID: n.id, Leaders: n.meter.leaders.Load(),
		Saved: n.meter.snapshots.Load(), Received: n.meter.received.Load(), Deposes: n.meter.deposes.Load(), Dropped: n.meter.overheard.Load(), Fsync: n.meter.histogram()}
	var asked Status
	if err := n.do(ctx, func(c *core.Core) error { asked = n.ask(c); return nil }); err == nil {
		s.Learner, s.Role, s.Term, s.Leader = asked.Learner, asked.Role, asked.Term, asked.Leader
		s.Commit, s.Applied, s.SnapshotIndex, s.Keys, s.Token = asked.Commit, asked.Applied, asked.SnapshotIndex, asked.Keys, asked.Token
		s.Passes, s.Waiting, s.Members, s.Counts = asked.Passes, asked.Waiting, asked.Members, asked.Counts
		s.Hash, s.Hashes = asked.Hash, asked.Hashes
	}
	return s
}

// ask reads the core, on its goroutine.
func (n *Node) ask(c *core.Core) (s Status) {
	m := c.Machine()
	s.Role, s.Term, s.Commit, s.Applied, s.SnapshotIndex = c.Role(), c.Term(), c.Commit(), m.Index(), n.snapshot
	lead, _ := c.Leader()
	s.Leader, _ = m.Member(lead)
	s.Keys, s.Token, s.Counts, s.Hash = m.Len(), m.Counter(), *c.Counters(), m.Hash()
	s.Passes, s.Waiting = c.Unconfirmed()
	at := map[uint64]int{}
	for _, member := range m.Members() {
		at[member.ID] = len(s.Members)
		s.Members = append(s.Members, Member{Member: member})
	}
	for _, id := range c.Conf().GetVoters() {
		if i, ok := at[id]; ok {
			s.Members[i].Voter = true
		}
	}
	if i, ok := at[n.id]; ok {
		s.Learner = !s.Members[i].Voter
		if s.Role != core.Follower {
			s.Members[i].Known, s.Members[i].Active, s.Members[i].Match = true, true, c.Commit()
		}
	}
	for p := range c.Others() {
		if i, ok := at[p.ID]; ok {
			s.Members[i].Known, s.Members[i].Active, s.Members[i].Match = true, p.Active, p.Match
		}
	}
	for index := m.Checkpoint(); index != 0 && len(s.Hashes) < hashesShown; index -= state.CheckpointEvery {
		if hash, ok := m.HashAt(index); ok {
			s.Hashes = append(s.Hashes, Hash{index, hash})
		}
	}
	return s
}
