package core

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/state"
)

// changeRole follows what raft and the log say about the lead.
func (c *Core) changeRole() {
	if s := c.rd.SoftState; s != nil {
		c.isLeader, c.lead = s.RaftState == raft.StateLeader, s.Lead
	}
	if h := c.rd.HardState; !raft.IsEmptyHardState(h) {
		c.term = h.GetTerm()
	}
	if c.role != Follower && (!c.isLeader || c.term != c.leadTerm) {
		if c.role == Leading {
			c.depose()
		}
		c.role = Follower
	}
	if c.role == Follower && c.isLeader {
		c.role, c.leadTerm = Elected, c.term
		c.counters.Elections++
	}
	switch {
	case c.role == Elected && c.machine.Term() == c.term:
		c.serve() // all that any earlier leader confirmed is applied
	case c.role == Deposed && c.turns.settled == c.turns.seq:
		c.serve()
	}
	c.follow()
}

// serve lets the server execute requests.
func (c *Core) serve() {
	c.role = Leading
	c.epoch++
	c.turns.settled = c.turns.seq // what is not applied by now never will be
	c.counters.Leads++
	c.notice(Notice{Kind: NoticeLead, Epoch: c.epoch})
}

// depose ends the epoch. While raft still has this node as leader, it waits in
// role Deposed.
func (c *Core) depose() {
	handed := c.transfer
	c.role = Deposed
	c.transfer = transfer{}
	c.counters.Deposes++
	c.counters.Dropped += uint64(c.turns.reset())
	_, client := c.Leader()
	if c.lead == 0 && handed.told {
		// Nearly certain, and known in a moment: who asks before that is sent
		// the right way, and not told that there is no leader.
		next, _ := c.machine.Member(handed.to)
		client, c.presumed = next.Client, electionTicks
	}
	c.notice(Notice{Kind: NoticeDepose, Epoch: c.epoch, Leader: client, Proposed: slices.Clone(c.turns.proposed)})
}

// follow tells the server who leads, if that has changed.
func (c *Core) follow() {
	client := ""
	if c.lead != c.id {
		_, client = c.Leader()
	}
	if client != c.following {
		c.following = client
		c.notice(Notice{Kind: NoticeFollow, Leader: client})
	}
}

// tickPresumed takes back that the node the lead was handed to leads, if nobody
// does after all.
func (c *Core) tickPresumed() {
	if c.presumed == 0 {
		return
	}
	if c.presumed--; c.presumed == 0 && c.lead == 0 {
		c.notice(Notice{Kind: NoticeFollow})
	}
}

// transfer is a lead that is being handed over: nothing is proposed any more,
// and when all that was proposed is confirmed, the other node is told to stand
// for election at once.
type transfer struct {
	to    uint64 // 0: none
	told  bool
	ticks int
}

// Transfer hands the lead over to another voter, or to the one that has most of
// the log if to is 0. Turns submitted meanwhile wait; if the transfer succeeds
// they are never proposed. If it fails, within a second or so, there is a
// NoticeTransfer and the node goes on. Errors wrap ErrIgnored.
func (c *Core) Transfer(to uint64) error {
	if c.role != Leading {
		return fmt.Errorf("this node does not lead: %w", ErrIgnored)
	}
	var best Progress
	for f := range c.Others() {
		if f.Learner || !f.Active || to != 0 && f.ID != to {
			continue
		}
		if best.ID == 0 || f.Match > best.Match {
			best = f
		}
	}
	if best.ID == 0 {
		return fmt.Errorf("no other node could take the lead now: %w", ErrIgnored)
	}
	c.transfer = transfer{to: best.ID}
	c.maybeHandOver()
	return nil
}

// Transferring reports whether the lead is being handed over.
func (c *Core) Transferring() bool { return c.transfer.to != 0 }

// maybeHandOver tells the other node, once nothing is unconfirmed.
func (c *Core) maybeHandOver() {
	if t := &c.transfer; t.to != 0 && !t.told && c.turns.unconfirmed() == 0 {
		t.told = true
		c.raft.TransferLeader(t.to)
	}
}

// tickTransfer gives a transfer up that takes too long.
func (c *Core) tickTransfer() {
	t := &c.transfer
	if t.to == 0 {
		return
	}
	t.ticks++
	failed := t.ticks > transferTicks
	if t.told {
		failed = c.raft.BasicStatus().LeadTransferee == 0 // raft has given up
	}
	if failed {
		c.transfer = transfer{}
		c.notice(Notice{Kind: NoticeTransfer})
	}
}

// ErrNoLead says that only the leader can do it.
var ErrNoLead = errors.New("this node does not lead")

// AddLearner proposes a node that gets the log and does not vote yet. It
// becomes a voter by itself when it has caught up.
func (c *Core) AddLearner(m state.Member) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return c.proposeConf(raftpb.ConfChangeAddLearnerNode, m.ID, state.EncodeMember(nil, c.memberHeader(), m))
}

// Remove proposes that a node is no member any more.
func (c *Core) Remove(id uint64) error {
	return c.proposeConf(raftpb.ConfChangeRemoveNode, id, state.EncodeRemoval(nil, c.memberHeader(), id))
}

// SetMember proposes what is known of a member: its addresses, its instance.
func (c *Core) SetMember(m state.Member) error {
	if !c.isLeader {
		return ErrNoLead
	}
	if err := m.Validate(); err != nil {
		return err
	}
	return c.raft.Propose(state.EncodeMember(nil, c.memberHeader(), m))
}

func (c *Core) memberHeader() state.Header { return state.Header{Proposer: c.id, Boot: c.boot} }

// proposeConf proposes one change. Raft lets only one be under way and makes
// any other an empty entry, so the caller looks at the outcome and tries again.
func (c *Core) proposeConf(kind raftpb.ConfChangeType, id uint64, context []byte) error {
	if !c.isLeader {
		return ErrNoLead
	}
	return c.raft.ProposeConfChange(&raftpb.ConfChangeV2{
		Changes: []*raftpb.ConfChangeSingle{{Type: kind.Enum(), NodeId: new(id)}},
		Context: context,
	})
}

// promoteLearners makes a learner that has caught up a voter, one at a time.
func (c *Core) promoteLearners() {
	if len(c.conf.GetLearners()) == 0 {
		return
	}
	commit := c.Commit()
	for f := range c.Others() {
		if f.Learner && f.Active && f.Match != 0 && f.Match+promoteLag >= commit {
			_ = c.proposeConf(raftpb.ConfChangeAddNode, f.ID, nil) // the next look tries again
			return
		}
	}
}
