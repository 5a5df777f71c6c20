package core

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/state"
)

// Ready is what a pass has to do. Its slices are valid until Persisted.
type Ready struct {
	// Messages go out at once.
	Messages []*raftpb.Message

	// Notices are for the server, in order. They need not wait for the disk:
	// what is confirmed is on the disks of a majority.
	Notices []Notice

	// Snapshot came from the leader and is to be written before all else; empty
	// if there is none.
	Snapshot *raftpb.Snapshot

	// HardState and Entries are to be appended to the log; MustSync says that
	// the log must then be on the disk before Persisted is called.
	HardState *raftpb.HardState
	Entries   []*raftpb.Entry
	MustSync  bool
}

// NoticeKind says what a Notice is about.
type NoticeKind uint8

// The kinds of a Notice.
const (
	NoticeLead     NoticeKind = iota + 1 // serve, from what Machine holds now
	NoticeConfirm                        // turns of Loop up to Seq are confirmed
	NoticeDepose                         // serve no more
	NoticeFollow                         // another node leads, or none
	NoticeMembers                        // members, voters or learners have changed
	NoticeTransfer                       // a transfer was given up, and this node goes on leading
)

// Notice is something to tell the server.
type Notice struct {
	Kind   NoticeKind
	Loop   int    // NoticeConfirm
	Seq    uint64 // NoticeConfirm
	Epoch  uint64 // NoticeLead: of the turns to come; NoticeDepose: of those that end
	Leader string // NoticeDepose, NoticeFollow: client address of the leader; "": not known

	// Proposed says, in a NoticeDepose, by loop, which turns may yet be applied:
	// those up to here. Those behind it never will be.
	Proposed []uint64
}

// HasReady reports whether a pass would do anything.
func (c *Core) HasReady() bool {
	return c.raft.HasReady() || len(c.ready.Notices) > 0 || len(c.turns.queue) > 0 && c.transfer.to == 0
}

// Ready begins a pass: it makes the submitted turns an entry, applies what has
// been committed, and returns what there is to do. Persisted must follow.
//
// Its errors are final.
func (c *Core) Ready() (*Ready, error) {
	c.propose()
	c.rd = c.raft.Ready()
	r := &c.ready
	r.Snapshot, r.HardState, r.Entries, r.MustSync = c.rd.Snapshot, c.rd.HardState, c.rd.Entries, c.rd.MustSync
	r.Messages = r.Messages[:0]
	for _, m := range c.rd.Messages {
		if !vouches(m) {
			r.Messages = append(r.Messages, m)
		}
	}
	if !raft.IsEmptySnap(r.Snapshot) {
		if err := c.loadSnapshot(r.Snapshot); err != nil {
			return nil, err
		}
	}
	for _, e := range c.rd.CommittedEntries {
		if err := c.apply(e); err != nil {
			return nil, err
		}
	}
	for i := range c.rd.ReadStates {
		c.proved(c.rd.ReadStates[i].RequestCtx)
	}
	c.confirm()
	c.changeRole()
	c.maybeHandOver()
	c.renewSnapshots()
	return r, nil
}

// renewSnapshots puts the present state into the snapshots that go out. The one
// in Storage may be so old that it does not know the node it is for.
func (c *Core) renewSnapshots() {
	var fresh *raftpb.Snapshot
	for _, m := range c.ready.Messages {
		if m.GetType() != raftpb.MsgSnap {
			continue
		}
		if fresh == nil {
			fresh = &raftpb.Snapshot{Data: c.machine.Snapshot(), Metadata: &raftpb.SnapshotMetadata{
				Index: new(c.machine.Index()), Term: new(c.machine.Term()), ConfState: c.conf,
			}}
		}
		m.Snapshot = fresh
	}
}

// vouches reports whether a message tells another node what is on this one's
// disk.
func vouches(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgVoteResp, raftpb.MsgPreVoteResp:
		return true
	}
	return false
}

// Persisted ends the pass when all that Ready returned is on the disk. It
// returns the messages that had to wait for that.
func (c *Core) Persisted() []*raftpb.Message {
	r := &c.ready
	r.Messages, r.Notices = r.Messages[:0], r.Notices[:0]
	if c.pending != nil {
		c.install()
	}
	if !raft.IsEmptyHardState(c.rd.HardState) {
		_ = c.storage.SetHardState(c.rd.HardState) // returns no error
	}
	_ = c.storage.Append(c.rd.Entries) // panics if they do not follow on
	for _, m := range c.rd.Messages {
		if vouches(m) {
			r.Messages = append(r.Messages, m)
		}
	}
	rd := c.rd
	c.rd = raft.Ready{}
	c.raft.Advance(rd)
	return r.Messages
}

// loadSnapshot makes a machine of a snapshot that has come.
func (c *Core) loadSnapshot(s *raftpb.Snapshot) error {
	m, err := state.Load(s.GetData())
	if err == nil && m.Index() != s.GetMetadata().GetIndex() {
		err = fmt.Errorf("its content is of entry %d", m.Index())
	}
	if err != nil {
		return fmt.Errorf("snapshot at entry %d: %w", s.GetMetadata().GetIndex(), err)
	}
	c.pending = m
	return nil
}

// install puts the state of a snapshot, now on the disk, in the place of the
// machine.
func (c *Core) install() {
	if err := c.storage.ApplySnapshot(c.rd.Snapshot); err != nil {
		panic(fmt.Sprintf("a snapshot that raft took is refused: %v", err)) // raft takes none that is old
	}
	c.machine, c.pending = c.pending, nil
	c.conf = c.rd.Snapshot.GetMetadata().GetConfState()
	c.notice(Notice{Kind: NoticeMembers})
	c.follow()
}

func (c *Core) notice(n Notice) { c.ready.Notices = append(c.ready.Notices, n) }

// Snapshot makes a snapshot of the state, for the disk and for nodes that are
// far behind. It must not be called between Ready and Persisted. It returns nil
// if nothing has been applied since the last one.
func (c *Core) Snapshot() (*raftpb.Snapshot, error) {
	s, err := c.storage.CreateSnapshot(c.machine.Index(), c.conf, c.machine.Snapshot())
	if errors.Is(err, raft.ErrSnapOutOfDate) {
		return nil, nil
	}
	return s, err
}

// Compact forgets the entries up to and including index, which is not above
// that of a snapshot on the disk.
func (c *Core) Compact(index uint64) {
	_ = c.storage.Compact(index) // fails only if it has been done already
}
