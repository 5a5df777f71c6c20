package core

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"ticketing/cluster/state"
)

// apply applies a committed entry. Its errors are final: an entry that this
// program cannot read, or that is not the next.
func (c *Core) apply(e *raftpb.Entry) error {
	if e.GetType() != raftpb.EntryNormal {
		return c.applyConf(e)
	}
	err := c.machine.Apply(e.GetIndex(), e.GetTerm(), e.GetData())
	misfit := errors.Is(err, state.ErrMisfit)
	if err != nil && !misfit {
		return err
	}
	if misfit {
		c.counters.Misfits++
	}
	if len(e.GetData()) != 0 {
		c.settle(e.GetData(), misfit)
	}
	return nil
}

// settle confirms the turns of an entry, if it is one of ours.
func (c *Core) settle(entry []byte, misfit bool) {
	h, err := state.DecodeHeader(entry)
	if err != nil || h.Proposer != c.id || h.Boot != c.boot {
		return
	}
	if h.Kind == state.KindMember {
		c.notice(Notice{Kind: NoticeMembers})
		return
	}
	if c.role != Leading {
		c.turns.settled = max(c.turns.settled, h.Seq)
		return
	}
	if misfit {
		// The shards believe what nobody else does. All they decided since is in
		// doubt.
		c.turns.settled = h.Seq
		c.confirm() // what came before it fitted
		c.depose()
		return
	}
	if !c.turns.settle(h.Seq) {
		c.depose()
	}
}

// applyConf applies a change of who votes and who learns. Its context is the
// entry that changes the member itself; if that does not fit, neither is done.
func (c *Core) applyConf(e *raftpb.Entry) error {
	var v2 raftpb.ConfChangeV2
	var v1 raftpb.ConfChange
	cc, err := raftpb.ConfChangeI(&v2), proto.Unmarshal(e.GetData(), &v2)
	if e.GetType() == raftpb.EntryConfChange {
		cc, err = &v1, proto.Unmarshal(e.GetData(), &v1)
	}
	if err != nil {
		return fmt.Errorf("entry %d, a change of the members: %w", e.GetIndex(), err)
	}
	err = c.machine.Apply(e.GetIndex(), e.GetTerm(), cc.AsV2().GetContext())
	if errors.Is(err, state.ErrMisfit) {
		c.counters.Misfits++
		return nil
	}
	if err != nil {
		return err
	}
	c.conf = c.raft.ApplyConfChange(cc)
	c.notice(Notice{Kind: NoticeMembers})
	return nil
}

// proved takes note of a read index.
func (c *Core) proved(ctx []byte) {
	if c.role == Leading && len(ctx) == 8 {
		c.turns.prove(binary.BigEndian.Uint64(ctx))
	}
}

// confirm tells the server what this pass has confirmed.
func (c *Core) confirm() {
	for loop, seq := range c.turns.confirm {
		if seq != 0 {
			c.notice(Notice{Kind: NoticeConfirm, Loop: loop, Seq: seq})
			c.turns.confirm[loop] = 0
		}
	}
}
