package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// quiet is a raft.Logger that says nothing, and panics where raft would.
type quiet struct{}

func (quiet) Debug(...any)              {}
func (quiet) Debugf(string, ...any)     {}
func (quiet) Info(...any)               {}
func (quiet) Infof(string, ...any)      {}
func (quiet) Warning(...any)            {}
func (quiet) Warningf(string, ...any)   {}
func (quiet) Error(...any)              {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (quiet) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }

// disk is what survives a crash.
type disk struct {
	snapshot *raftpb.Snapshot
	hard     *raftpb.HardState
	synced   *raftpb.HardState // of the last write that was waited for
	entries  []*raftpb.Entry
}

// append puts entries at their place, and forgets what stood there before.
func (d *disk) append(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	first := entries[0].GetIndex()
	keep := d.entries[:0:0]
	for _, e := range d.entries {
		if e.GetIndex() < first {
			keep = append(keep, e)
		}
	}
	d.entries = append(keep, entries...)
}

// node is a machine with a disk, and a process if it is up.
type node struct {
	w    *world
	id   uint64
	disk disk

	up          bool
	boot        uint64
	storage     *raft.MemoryStorage
	core        *core.Core
	server      *server
	inbox       []func() // what the process has not taken in yet
	busy        bool     // it takes in, or does a pass
	writing     bool     // it waits for the disk
	pausedUntil moment
}

func newNode(w *world, id uint64) *node {
	n := &node{w: w, id: id}
	m := state.New()
	conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}}
	for _, id := range conf.Voters {
		if err := m.Apply(id, 1, state.EncodeMember(nil, state.Header{}, memberOf(id))); err != nil {
			panic(err)
		}
	}
	n.disk.snapshot = &raftpb.Snapshot{Data: m.Snapshot(), Metadata: &raftpb.SnapshotMetadata{
		Index: new(m.Index()), Term: new(m.Term()), ConfState: conf}}
	n.disk.hard = &raftpb.HardState{Term: new(uint64(1)), Commit: new(m.Index())}
	n.disk.synced = n.disk.hard
	n.start()
	return n
}

func memberOf(id uint64) state.Member {
	return state.Member{ID: id, Name: fmt.Sprint("n", id), Client: fmt.Sprint("c", id)}
}

// start starts the process.
func (n *node) start() {
	if n.up {
		return
	}
	n.boot++
	n.storage = raft.NewMemoryStorage()
	must(n.storage.ApplySnapshot(n.disk.snapshot))
	must(n.storage.SetHardState(n.disk.hard))
	must(n.storage.Append(n.disk.entries))
	machine, err := state.Load(n.disk.snapshot.GetData())
	must(err)
	n.core, err = core.New(core.Config{ID: n.id, Boot: n.boot<<8 | n.id, Loops: loopsPerNode,
		Storage: n.storage, Machine: machine, Logger: quiet{}})
	must(err)
	n.up, n.writing, n.inbox = true, false, nil
	n.server = newServer(n)
	n.tick(n.boot)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// crash ends the process. What was being written is lost, and what was written
// and not waited for may be.
func (n *node) crash() {
	if n.w.chance(0.5) {
		n.disk.hard = n.disk.synced
	}
	n.server.crashed()
	n.up, n.core, n.server, n.inbox = false, nil, nil, nil
}

// tick lets time pass for the process of a boot.
func (n *node) tick(boot uint64) {
	n.w.after(core.TickMillis*time.Millisecond+n.w.upTo(2*time.Millisecond), func() {
		if !n.up || n.boot != boot {
			return
		}
		if n.w.now >= n.pausedUntil { // a stopped machine catches no tick up
			n.deliver(n.core.Tick)
		}
		n.tick(boot)
	})
}

// deliver gives the process something to do.
func (n *node) deliver(f func()) {
	if n.up {
		n.inbox = append(n.inbox, f)
		n.wake()
	}
}

// wake lets the process take in what came, and do a pass.
func (n *node) wake() {
	if !n.up || n.writing || n.busy || n.w.now < n.pausedUntil {
		return
	}
	n.busy = true
	defer func() { n.busy = false }()
	for len(n.inbox) > 0 {
		in := n.inbox
		n.inbox = nil
		for _, f := range in {
			f()
		}
	}
	if n.core.HasReady() {
		n.pass()
	}
}

// pass is one pass of the core, with a disk that takes its time.
func (n *node) pass() {
	r, err := n.core.Ready()
	must(err)
	n.w.judge.applied(n)
	n.w.send(n.id, r.Messages)
	for _, notice := range r.Notices {
		n.server.hear(notice)
	}
	took := time.Duration(0)
	if r.MustSync || !raft.IsEmptySnap(r.Snapshot) {
		took = 100*time.Microsecond + n.w.upTo(3*time.Millisecond)
	}
	n.writing = true
	snapshot, hard, entries, sync := r.Snapshot, r.HardState, r.Entries, r.MustSync
	boot := n.boot
	n.w.after(took, func() {
		if !n.up || n.boot != boot {
			return // it crashed while it wrote
		}
		n.write(snapshot, hard, entries, sync)
		n.writing = false
		n.w.send(n.id, n.core.Persisted())
		n.w.at(max(n.w.now, n.pausedUntil), n.wake)
	})
}

func (n *node) write(snapshot *raftpb.Snapshot, hard *raftpb.HardState, entries []*raftpb.Entry, sync bool) {
	if !raft.IsEmptySnap(snapshot) {
		n.disk.snapshot, n.disk.entries = snapshot, nil
	}
	if !raft.IsEmptyHardState(hard) {
		n.disk.hard = hard
	}
	n.disk.append(entries)
	if sync || !raft.IsEmptySnap(snapshot) {
		n.disk.synced = n.disk.hard
	}
}

// snapshot writes a snapshot and compacts the log down to it.
func (n *node) snapshot() {
	s, err := n.core.Snapshot()
	must(err)
	if s == nil {
		return
	}
	index := s.GetMetadata().GetIndex()
	n.disk.snapshot = s
	n.disk.synced = n.disk.hard
	keep := n.disk.entries[:0:0]
	for _, e := range n.disk.entries {
		if e.GetIndex() > index {
			keep = append(keep, e)
		}
	}
	n.disk.entries = keep
	n.core.Compact(index)
}

// changeMembers takes a fourth node in, or out again, if this one leads.
func (n *node) changeMembers() {
	if n.core.Role() != core.Leading {
		return
	}
	if _, in := n.core.Machine().Member(4); in {
		_ = n.core.Remove(4) // raft may have a change under way
		return
	}
	if n.w.node(4) == nil {
		newcomer := &node{w: n.w, id: 4}
		newcomer.disk.snapshot = &raftpb.Snapshot{Data: state.New().Snapshot(), Metadata: &raftpb.SnapshotMetadata{}}
		newcomer.disk.hard, newcomer.disk.synced = &raftpb.HardState{}, &raftpb.HardState{}
		n.w.nodes = append(n.w.nodes, newcomer)
		newcomer.start()
	}
	_ = n.core.AddLearner(memberOf(4))
}

// place is the loop of a key, and its hash.
func place(key string) (loop int, hash uint64) {
	hash = xxhash.Sum64String(key)
	return int(hash>>32) % loopsPerNode, hash
}
