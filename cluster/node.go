package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"

	"ticketing/cluster/core"
	"ticketing/shard"
)

// Node is one node of a cluster.
type Node struct {
	cfg   Config
	id    uint64
	log   *slog.Logger
	inbox *inbox
	ln    net.Listener
	view  atomic.Pointer[view]
	meter meter

	stopOnce sync.Once
	stopped  chan struct{} // closed when the node is to stop
	err      error         // why, before stopped is closed

	// Of Run's goroutine.
	disk     *disk
	identity identity
	core     *core.Core
	server   Server
	herald   *herald
	links    *links
	arrivals arrivals
	saved    chan error // the snapshot that is being written is on the disk
	saving   uint64     // its index; 0: none is being written
	keep     uint64     // entries that stay in memory behind it
	snapshot uint64     // index of the last one on the disk
	since    grown      // the last one was begun
}

// Open checks the settings, takes the node's address and reads its disk. The
// error says what is wrong and what to do.
func Open(cfg Config) (*Node, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = defaultSnapshotEvery
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, id: NodeID(cfg.Node), log: cfg.Logger, inbox: newInbox(), stopped: make(chan struct{}), saved: make(chan error, 1)}
	n.view.Store(&view{})
	if err := n.openDisk(); err != nil {
		return nil, err
	}
	var err error
	if n.ln, err = listen(&n.cfg); err != nil {
		if n.disk != nil {
			n.disk.close()
		}
		return nil, err
	}
	return n, nil
}

// openDisk reads what was kept, or makes the disk of a first member. A node that
// joins has none until it has found the cluster.
func (n *Node) openDisk() error {
	var k *kept
	if hasDisk(n.cfg.Dir) {
		var err error
		if n.disk, k, err = openDisk(n.cfg.Dir, n.log); err != nil {
			return err
		}
		if n.identity, err = readIdentity(k.metadata, &n.cfg); err != nil {
			n.disk.close()
			return err
		}
	}
	if n.cfg.Join {
		if k == nil {
			return nil
		}
		return n.boot(k)
	}
	start, err := genesis(n.cfg.Peers)
	if err != nil {
		return fmt.Errorf("CLUSTER_PEERS: %w", err)
	}
	switch {
	case k == nil:
		n.identity = newIdentity(&n.cfg, clusterID(n.cfg.Cluster, n.cfg.Peers))
		n.disk, k, err = found(n.cfg.Dir, n.identity, start, n.log)
	case raft.IsEmptySnap(k.snapshot) && raft.IsEmptyHardState(k.hard) && n.identity.ClusterID == clusterID(n.cfg.Cluster, n.cfg.Peers):
		err = n.disk.begin(start, k) // the first start was cut short
	}
	if err != nil {
		return err
	}
	return n.boot(k)
}

// boot makes the core of what was kept.
func (n *Node) boot(k *kept) error {
	storage, machine, err := k.load()
	if err != nil {
		return n.disk.fault("load the state", err)
	}
	var boot [8]byte
	rand.Read(boot[:])
	n.snapshot = k.snapshot.GetMetadata().GetIndex()
	n.core, err = core.New(core.Config{
		ID: n.id, Boot: binary.BigEndian.Uint64(boot[:]), Loops: n.cfg.Loops,
		Storage: storage, Machine: machine, Logger: raftLog{n.log},
	})
	return err
}

// Submit takes a turn of the server. It never blocks.
func (n *Node) Submit(t shard.Turn) { n.inbox.turn(t) }

// Run takes part in the cluster and leads the server, until ctx is done or the
// node cannot go on; the error says why, and what to do.
func (n *Node) Run(ctx context.Context, server Server) error {
	n.server = server
	n.herald = newHerald(server, func(err error) { n.stop(fmt.Errorf("the server does not take the lead: %w", err)) })
	defer n.ln.Close()
	if n.core == nil {
		if err := n.join(ctx); err != nil {
			return err
		}
	}
	defer n.disk.close()
	n.links = newLinks(n)
	if err := n.links.start(); err != nil {
		return err
	}
	n.publish()
	var running sync.WaitGroup
	running.Go(func() { n.herald.run(n.stopped) })
	running.Go(func() { n.links.run(n.stopped) })
	running.Go(func() {
		select {
		case <-ctx.Done():
			n.stop(nil)
		case <-n.stopped:
		}
	})
	n.drive()
	running.Wait()
	n.links.stop()
	if n.saving != 0 {
		<-n.saved
	}
	return n.err
}

// stop makes the node stop, because of err if it is not nil.
func (n *Node) stop(err error) {
	n.stopOnce.Do(func() {
		n.err = err
		close(n.stopped)
	})
}

// drive is the loop that everything happens in: what came in since the last
// pass is taken in at once, so that one entry and one fsync carry it.
func (n *Node) drive() {
	defer func() {
		if p := recover(); p != nil { // raft found its log in contradiction to what others say
			n.log.Error("the consensus cannot go on", "reason", p, "stack", string(debug.Stack()))
			n.stop(fmt.Errorf("the consensus cannot go on: %v; the data in %s contradicts the other nodes: %s", p, n.cfg.Dir, startAnew))
		}
	}()
	ticker := time.NewTicker(core.TickMillis * time.Millisecond)
	defer ticker.Stop()
	for {
		if !n.core.HasReady() {
			select {
			case <-n.inbox.wake:
			case <-ticker.C:
				n.core.Tick()
			case err := <-n.saved:
				n.noteSaved(err)
			case <-n.stopped:
				return
			}
		} else {
			select {
			case <-ticker.C:
				n.core.Tick()
			case err := <-n.saved:
				n.noteSaved(err)
			case <-n.stopped:
				return
			default:
			}
		}
		if !n.takeIn() || !n.core.HasReady() {
			continue
		}
		if err := n.pass(); err != nil {
			n.log.Error("the node stops", "error", err)
			n.stop(err)
			return
		}
	}
}

// takeIn gives the core what has come in. It reports false if that ends the
// node.
func (n *Node) takeIn() bool {
	n.arrivals = n.inbox.take(n.arrivals)
	for _, m := range n.arrivals.messages {
		if err := n.core.Step(m); err != nil && !errors.Is(err, core.ErrIgnored) {
			n.stop(fmt.Errorf("%w: update this node", err))
			return false
		}
	}
	for _, call := range n.arrivals.calls {
		call(n.core)
	}
	for i := range n.arrivals.turns {
		n.core.Submit(n.arrivals.turns[i])
	}
	return true
}

// pass is one pass of the core.
func (n *Node) pass() error {
	r, err := n.core.Ready()
	if err != nil {
		return fmt.Errorf("%w: if the others run a newer program, update this one; else: %s", err, startAnew)
	}
	n.links.send(r.Messages)
	news := false
	for i := range r.Notices {
		switch notice := &r.Notices[i]; notice.Kind {
		case core.NoticeConfirm:
			n.server.Confirm(notice.Loop, notice.Seq)
		default:
			n.herald.tell(*notice, n.core)
			n.meter.note(notice.Kind)
			news = true
		}
	}
	if !raft.IsEmptySnap(r.Snapshot) {
		if err := n.disk.saveSnapshot(r.Snapshot); err != nil {
			return err
		}
		n.snapshot = r.Snapshot.GetMetadata().GetIndex()
		n.meter.received.Add(1)
		news = true
	}
	if err := n.save(r); err != nil {
		return err
	}
	n.links.send(n.core.Persisted())
	n.publishIf(news)
	return n.maybeSnapshot()
}

func (n *Node) save(r *core.Ready) error {
	n.since.add(r.Entries)
	if raft.IsEmptyHardState(r.HardState) && len(r.Entries) == 0 {
		return nil
	}
	if !r.MustSync {
		return n.disk.save(r.HardState, r.Entries)
	}
	start := time.Now()
	err := n.disk.save(r.HardState, r.Entries)
	n.meter.synced(time.Since(start))
	return err
}

// maybeSnapshot begins to write a snapshot when the log has grown enough. The
// state is put into bytes at once and written beside the passes.
func (n *Node) maybeSnapshot() error {
	if n.saving != 0 || n.core.Machine().Index() < n.snapshot+n.cfg.SnapshotEvery && n.since.bytes < snapshotBytes {
		return nil
	}
	n.keep = n.since.keep(n.cfg.SnapshotEvery)
	n.since = grown{}
	s, err := n.core.Snapshot()
	if err != nil || s == nil {
		return err
	}
	n.saving = s.GetMetadata().GetIndex()
	go func() {
		err := n.disk.snaps.SaveSnap(s)
		if err == nil {
			err = n.disk.noteSnapshot(s) // the log takes records of several goroutines
		}
		n.saved <- err
	}()
	return nil
}

// noteSaved lets go of what a snapshot on the disk has made superfluous.
func (n *Node) noteSaved(err error) {
	index := n.saving
	n.saving = 0
	if err == nil && index > n.snapshot {
		n.snapshot = index
		n.meter.snapshots.Add(1)
		if index > n.keep {
			n.core.Compact(index - n.keep)
		}
		err = n.disk.drop(index)
	}
	if err != nil {
		err = n.disk.fault("write a snapshot", err)
		n.log.Error("the node stops", "error", err)
		n.stop(err)
	}
	n.publish()
}
