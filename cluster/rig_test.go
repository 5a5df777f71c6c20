package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"ticketing/shard"
)

// server is a Server that remembers what it was told.
type server struct {
	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at each change
	epoch     uint64        // 0: does not lead
	state     map[string]shard.Held
	counter   uint64
	seq       uint64
	confirmed uint64
	deposed   []shard.Deposed
	leader    string
}

func newServer() *server { return &server{changed: make(chan struct{})} }

func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) Lead(epoch uint64, state shard.LeadState) error {
	s.change(func() {
		s.epoch, s.counter, s.state = epoch, state.Counter, map[string]shard.Held{}
		for held := range state.Keys {
			s.state[held.Key] = held
		}
	})
	return nil
}

func (s *server) Confirm(_ int, seq uint64) { s.change(func() { s.confirmed = seq }) }

func (s *server) Depose(_ uint64, d shard.Deposed) {
	s.change(func() { s.epoch = 0; s.deposed = append(s.deposed, d) })
}

func (s *server) Follow(leader string) { s.change(func() { s.leader = leader }) }

// await waits until ok holds, and fails the test if it does not.
func (s *server) await(t *testing.T, what string, ok func(*server) bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		done, changed := ok(s), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: not in 20 s", what)
		}
	}
}

// rig is nodes in this process, each with a disk and an address of its own.
type rig struct {
	t     *testing.T
	cfgs  map[string]Config
	nodes map[string]*running
}

type running struct {
	*Node
	*server
	stop func() error
}

// FreeAddr returns an address that nobody listens on at the moment.
func FreeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func testLog(t *testing.T) *slog.Logger {
	if os.Getenv("CLUSTER_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newRig(t *testing.T, n int, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, cfgs: map[string]Config{}, nodes: map[string]*running{}}
	var peers []Peer
	for i := 1; i <= n; i++ {
		peers = append(peers, Peer{fmt.Sprint("n", i), FreeAddr(t)})
	}
	for _, p := range peers {
		cfg := Config{Node: p.Name, Cluster: "test", Peers: peers, Client: "client-" + p.Name + ":1",
			Dir: t.TempDir(), Loops: 1, Logger: testLog(t).With("me", p.Name)}
		for _, f := range change {
			f(&cfg)
		}
		r.cfgs[p.Name] = cfg
	}
	for _, p := range peers {
		r.start(p.Name)
	}
	t.Cleanup(func() {
		for name := range r.nodes {
			if err := r.stop(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	return r
}

func (r *rig) start(name string) *running {
	r.t.Helper()
	n, err := Open(r.cfgs[name])
	if err != nil {
		r.t.Fatal(err)
	}
	s := newServer()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx, s) }()
	r.nodes[name] = &running{n, s, sync.OnceValue(func() error { cancel(); return <-done })}
	return r.nodes[name]
}

func (r *rig) stop(name string) error {
	n := r.nodes[name]
	delete(r.nodes, name)
	return n.stop()
}

// leader waits until a node leads.
func (r *rig) leader() *running {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, n := range r.nodes {
			n.mu.Lock()
			ok := n.epoch != 0
			n.mu.Unlock()
			if ok {
				return n
			}
		}
	}
	r.t.Fatal("nobody leads after 20 s")
	return nil
}

// other returns a node that is not n.
func (r *rig) other(n *running) *running {
	r.t.Helper()
	for _, m := range r.nodes {
		if m != n {
			return m
		}
	}
	r.t.Fatal("there is no other node")
	return nil
}

// grant has the leader grant a key and waits until it is confirmed.
func (n *running) grant(t *testing.T, keys ...string) {
	t.Helper()
	var last uint64
	for _, key := range keys {
		last = n.submit(key)
	}
	n.await(t, fmt.Sprintf("turn %d confirmed", last), func(s *server) bool { return s.confirmed >= last })
}

func (n *running) submit(key string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counter++
	n.seq++
	n.Submit(shard.Turn{Seq: n.seq, Epoch: n.epoch, Records: shard.AppendRecord(nil,
		&shard.Record{Kind: shard.RecordGrant, Token: n.counter, Lease: 10, Key: []byte(key)})})
	return n.seq
}

// same waits until all nodes have the same state at the same index.
func (r *rig) same() Status {
	r.t.Helper()
	ctx := r.t.Context()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var all []Status
		for _, n := range r.nodes {
			all = append(all, n.Status(ctx))
		}
		equal := true
		for _, s := range all {
			if s.Applied == all[0].Applied && s.Hash != all[0].Hash {
				r.t.Fatalf("at entry %d node %s has hash %x, %s has %x", s.Applied, s.Node, s.Hash, all[0].Node, all[0].Hash)
			}
			equal = equal && s.Applied == all[0].Applied
		}
		if equal {
			return all[0]
		}
	}
	r.t.Fatal("the nodes do not reach the same entry in 20 s")
	return Status{}
}
