package core

import (
	"fmt"
	"log/slog"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/state"
	"ticketing/shard"
)

// quiet is a raft.Logger that says nothing, and panics when raft would.
type quiet struct{ raft.Logger }

func (quiet) Debug(...any)              {}
func (quiet) Debugf(string, ...any)     {}
func (quiet) Info(...any)               {}
func (quiet) Infof(string, ...any)      {}
func (quiet) Warning(...any)            {}
func (quiet) Warningf(string, ...any)   {}
func (quiet) Error(v ...any)            { slog.Error(fmt.Sprint(v...)) }
func (quiet) Errorf(f string, v ...any) { slog.Error(fmt.Sprintf(f, v...)) }
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (quiet) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }

const loops = 2

// genesis is the snapshot that all of n nodes start from.
func genesis(t *testing.T, n int) *raftpb.Snapshot {
	t.Helper()
	m := state.New()
	conf := &raftpb.ConfState{}
	for id := uint64(1); id <= uint64(n); id++ {
		member := state.Member{ID: id, Name: fmt.Sprint("n", id), Client: fmt.Sprint("c", id)}
		if err := m.Apply(id, 1, state.EncodeMember(nil, state.Header{}, member)); err != nil {
			t.Fatal(err)
		}
		conf.Voters = append(conf.Voters, id)
	}
	return &raftpb.Snapshot{Data: m.Snapshot(), Metadata: &raftpb.SnapshotMetadata{
		Index: new(m.Index()), Term: new(m.Term()), ConfState: conf}}
}

// node is a core and what its server was told.
type node struct {
	*Core
	leads, deposes []Notice
	confirmed      [loops]uint64
	follow         string
	gaveUp         int
}

// net are nodes whose messages all arrive at once, unless one is cut off.
type net struct {
	t     *testing.T
	nodes map[uint64]*node
	cut   map[uint64]bool
	lost  func(*raftpb.Message) bool // nil: nothing is lost without a word
	boots uint64
}

func newNet(t *testing.T, n int) *net {
	t.Helper()
	w := &net{t: t, nodes: map[uint64]*node{}, cut: map[uint64]bool{}}
	for id := uint64(1); id <= uint64(n); id++ {
		storage := raft.NewMemoryStorage()
		if err := storage.ApplySnapshot(genesis(t, n)); err != nil {
			t.Fatal(err)
		}
		if err := storage.SetHardState(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(n))}); err != nil {
			t.Fatal(err)
		}
		w.start(id, storage)
	}
	return w
}

func (w *net) start(id uint64, storage *raft.MemoryStorage) *node {
	w.t.Helper()
	w.boots++
	snapshot, err := storage.Snapshot()
	if err != nil {
		w.t.Fatal(err)
	}
	machine := state.New()
	if !raft.IsEmptySnap(snapshot) {
		if machine, err = state.Load(snapshot.GetData()); err != nil {
			w.t.Fatal(err)
		}
	}
	c, err := New(Config{ID: id, Boot: w.boots, Loops: loops, Storage: storage, Machine: machine, Logger: quiet{}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[id] = &node{Core: c}
	return w.nodes[id]
}

func (w *net) send(from uint64, messages []*raftpb.Message) {
	w.t.Helper()
	for _, m := range messages {
		to := w.nodes[m.GetTo()]
		if to == nil || w.cut[from] || w.cut[m.GetTo()] || w.lost != nil && w.lost(m) {
			continue
		}
		_ = to.Step(m) // what is ignored is as good as lost
		if m.GetType() == raftpb.MsgSnap {
			w.nodes[from].SnapshotSent(m.GetTo(), true)
		}
	}
}

// pass does one pass of a node.
func (w *net) pass(id uint64) {
	w.t.Helper()
	n := w.nodes[id]
	r, err := n.Ready()
	if err != nil {
		w.t.Fatal(err)
	}
	out := append([]*raftpb.Message(nil), r.Messages...)
	for _, notice := range r.Notices {
		n.hear(w.t, notice)
	}
	w.send(id, out)
	w.send(id, n.Persisted())
}

func (n *node) hear(t *testing.T, notice Notice) {
	t.Helper()
	switch notice.Kind {
	case NoticeLead:
		n.leads = append(n.leads, notice)
	case NoticeDepose:
		n.deposes = append(n.deposes, notice)
	case NoticeConfirm:
		if notice.Seq <= n.confirmed[notice.Loop] {
			t.Errorf("turn %d of loop %d confirmed after %d", notice.Seq, notice.Loop, n.confirmed[notice.Loop])
		}
		n.confirmed[notice.Loop] = notice.Seq
	case NoticeFollow:
		n.follow = notice.Leader
	case NoticeTransfer:
		n.gaveUp++
	}
}

// settle does passes until nobody has anything to do.
func (w *net) settle() {
	w.t.Helper()
	for busy := true; busy; {
		busy = false
		for id := uint64(1); id <= uint64(len(w.nodes)); id++ {
			if w.nodes[id] != nil && w.nodes[id].HasReady() {
				w.pass(id)
				busy = true
			}
		}
	}
}

func (w *net) tick(n int) {
	w.t.Helper()
	for range n {
		for id := uint64(1); id <= uint64(len(w.nodes)); id++ {
			if w.nodes[id] != nil {
				w.nodes[id].Tick()
			}
		}
		w.settle()
	}
}

// elect makes a node the leader.
func (w *net) elect(id uint64) *node {
	w.t.Helper()
	w.nodes[id].Campaign()
	w.settle()
	if w.nodes[id].Role() != Leading {
		w.t.Fatalf("node %d is %v, want leading", id, w.nodes[id].Role())
	}
	return w.nodes[id]
}

func grant(key string, token uint64) []byte {
	return shard.AppendRecord(nil, &shard.Record{Kind: shard.RecordGrant, Token: token, Lease: 10, Key: []byte(key)})
}

func (n *node) submit(loop int, seq uint64, records []byte) {
	n.Submit(shard.Turn{Loop: loop, Seq: seq, Epoch: n.epoch, Records: records, Read: records == nil})
}

// equal fails the test if the nodes' states differ.
func (w *net) equal() {
	w.t.Helper()
	for id, n := range w.nodes {
		one := w.nodes[1].Machine()
		if m := n.Machine(); m.Index() != one.Index() || m.Hash() != one.Hash() {
			w.t.Errorf("node %d: hash %x at entry %d; node 1: %x at %d", id, m.Hash(), m.Index(), one.Hash(), one.Index())
		}
	}
}
