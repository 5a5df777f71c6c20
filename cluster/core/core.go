package core

import (
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"ticketing/cluster/state"
)

// Config is what a Core is made with.
type Config struct {
	ID      uint64              // of this node; not 0
	Boot    uint64              // random, another one at each start of the process: own entries are known by it
	Loops   int                 // Turn.Loop is below it
	Storage *raft.MemoryStorage // with all that is on the disk
	Machine *state.Machine      // as of the snapshot in Storage
	Logger  raft.Logger
}

// Role is what a node is; the package comment draws how it changes.
type Role uint8

// The roles.
const (
	Follower Role = iota // or candidate, or learner: another node leads, or none
	Elected              // leads, and must not execute anything yet
	Leading              // leads, and its server executes requests
	Deposed              // leads, and waits until what it proposed is settled
)

// String returns the role in one word.
func (r Role) String() string { return [...]string{"follower", "elected", "leading", "deposed"}[r] }

// ErrIgnored is wrapped by errors about a message or a command that has had no
// effect. The node goes on.
var ErrIgnored = errors.New("ignored")

// Core is one node. It belongs to one goroutine.
type Core struct {
	id, boot uint64
	raft     *raft.RawNode
	storage  *raft.MemoryStorage
	machine  *state.Machine
	conf     *raftpb.ConfState // as of the machine's index

	role      Role
	isLeader  bool   // raft says so
	lead      uint64 // ID of the leader that raft knows of; 0: none
	term      uint64
	epoch     uint64 // of the latest Lead
	leadTerm  uint64 // in which role is not Follower
	following string // what the last Follow said
	presumed  int    // ticks until a Depose's word for the next leader is taken back

	ticks uint64            // since the start
	heard map[uint64]uint64 // by node: the tick of its last message

	turns    turns
	transfer transfer
	promote  int // ticks since the last look at the learners

	rd       raft.Ready // taken and not persisted
	pending  *state.Machine
	ready    Ready
	counters Counters
}

// Counters count what has happened since the start.
type Counters struct {
	Entries   uint64 // entries proposed that carry turns
	Turns     uint64 // turns that were proposed in them
	Reads     uint64 // read indexes asked for
	Dropped   uint64 // turns that were never proposed
	Misfits   uint64 // entries that did not fit the state
	Leads     uint64 // times the server was told to lead
	Deposes   uint64 // times it was told to stop
	Elections uint64 // times raft made this node the leader
}

// New returns a node with everything that Storage holds. What the log holds
// behind the snapshot and is known to be committed is applied by the first
// passes.
func New(cfg Config) (*Core, error) {
	if cfg.Loops < 1 || cfg.ID == 0 || cfg.Storage == nil || cfg.Machine == nil || cfg.Logger == nil {
		return nil, fmt.Errorf("bad config of a node: %+v", cfg)
	}
	c := &Core{id: cfg.ID, boot: cfg.Boot, storage: cfg.Storage, machine: cfg.Machine, heard: map[uint64]uint64{}}
	c.turns.init(cfg.Loops)
	hard, conf, err := cfg.Storage.InitialState()
	if err != nil {
		return nil, err
	}
	c.conf, c.term = conf, hard.GetTerm()
	c.raft, err = raft.NewRawNode(raftConfig(&cfg))
	return c, err
}

// Tick is one step of time. It also looks after a transfer of the lead and
// after learners that have caught up.
func (c *Core) Tick() {
	c.raft.Tick()
	c.ticks++
	c.tickTransfer()
	c.tickPresumed()
	if c.promote++; c.promote >= promoteTicks && c.isLeader {
		c.promote = 0
		c.promoteLearners()
	}
}

// Step takes a message of another node. It aliases m. A snapshot that cannot be
// loaded is refused: with an error that wraps state.ErrVersion if the node must
// stop, for it cannot follow the others.
func (c *Core) Step(m *raftpb.Message) error {
	switch m.GetType() {
	case raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgTransferLeader:
		return fmt.Errorf("a %v of node %x: %w", m.GetType(), m.GetFrom(), ErrIgnored) // each node decides these itself
	case raftpb.MsgSnap:
		if _, err := state.Load(m.GetSnapshot().GetData()); err != nil {
			if !errors.Is(err, state.ErrVersion) {
				err = fmt.Errorf("%w: %w", err, ErrIgnored)
			}
			return fmt.Errorf("snapshot at entry %d from node %x: %w", m.GetSnapshot().GetMetadata().GetIndex(), m.GetFrom(), err)
		}
	}
	c.heard[m.GetFrom()] = c.ticks
	if err := c.raft.Step(m); err != nil {
		return fmt.Errorf("message of node %x: %w: %w", m.GetFrom(), err, ErrIgnored)
	}
	return nil
}

// Unreachable says that a message to a node was probably lost.
func (c *Core) Unreachable(id uint64) { c.raft.ReportUnreachable(id) }

// SnapshotSent says what became of a snapshot that was to be sent to a node. It
// must be called for each.
func (c *Core) SnapshotSent(id uint64, arrived bool) {
	status := raft.SnapshotFailure
	if arrived {
		status = raft.SnapshotFinish
	}
	c.raft.ReportSnapshot(id, status)
}

// Campaign lets the node try to become leader at once, and not after a silence.
func (c *Core) Campaign() { _ = c.raft.Campaign() } // fails only for who cannot be elected

// Role returns what the node is.
func (c *Core) Role() Role { return c.role }

// Term returns the present term.
func (c *Core) Term() uint64 { return c.term }

// Leader returns the ID of the leader, and its client address as far as it is
// known; 0 if there is no leader.
func (c *Core) Leader() (id uint64, client string) {
	m, _ := c.machine.Member(c.lead)
	return c.lead, m.Client
}

// Machine returns the state as of the last pass. It is read only, and another
// one after a snapshot has come.
func (c *Core) Machine() *state.Machine { return c.machine }

// Conf returns who votes and who learns, as of the last entry applied.
func (c *Core) Conf() *raftpb.ConfState { return c.conf }

// Counters returns the counters, live.
func (c *Core) Counters() *Counters { return &c.counters }

// Unconfirmed returns how many passes' turns are proposed or asked for and not
// confirmed, and how many turns wait to be proposed.
func (c *Core) Unconfirmed() (passes, waiting int) { return c.turns.unconfirmed(), len(c.turns.queue) }

// Commit returns the index that is known to be committed.
func (c *Core) Commit() uint64 { return c.raft.BasicStatus().GetCommit() }

// Progress is how far another node is, as the leader sees it.
type Progress struct {
	ID      uint64
	Match   uint64 // the last entry it is known to have on its disk
	Learner bool
	Active  bool // has been heard of within the last 10 ticks or so
}

// active reports whether a node was heard of lately. Raft's own mark is unset
// for a moment at each of its checks of the majority.
func (c *Core) active(id uint64) bool {
	at, ok := c.heard[id]
	return ok && c.ticks-at <= electionTicks
}

// Others yields all other nodes, if this one leads.
func (c *Core) Others() iter.Seq[Progress] {
	return func(yield func(Progress) bool) {
		if !c.isLeader {
			return
		}
		all := make([]Progress, 0, state.MaxMembers)
		c.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			if id != c.id {
				all = append(all, Progress{ID: id, Match: p.Match, Learner: p.IsLearner, Active: c.active(id)})
			}
		})
		for _, p := range all {
			if !yield(p) {
				return
			}
		}
	}
}
