package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/cluster"
	"ticketing/loop"
	"ticketing/shard"
)

// site is a whole node in this process: the server that clients see and the
// engine behind it.
type site struct {
	name string
	addr string // of the server
	cfg  cluster.Config

	srv  *loop.Server
	node *cluster.Node
	stop func()
}

// late is a replica that the server is made with before there is an engine.
type late struct{ node atomic.Pointer[cluster.Node] }

func (l *late) Submit(t shard.Turn) { l.node.Load().Submit(t) }

func startSites(t *testing.T, n, loops int) []*site {
	t.Helper()
	var sites []*site
	var peers []cluster.Peer
	for i := range n {
		s := &site{name: fmt.Sprint("n", i+1), addr: cluster.FreeAddr(t)}
		peers = append(peers, cluster.Peer{Name: s.name, Addr: cluster.FreeAddr(t)})
		sites = append(sites, s)
	}
	for _, s := range sites {
		s.cfg = cluster.Config{Node: s.name, Cluster: "served", Peers: peers, Client: s.addr, Dir: t.TempDir(), Loops: loops}
		s.start(t, loops)
		t.Cleanup(func() { s.stop() })
	}
	return sites
}

func (s *site) start(t *testing.T, loops int) {
	t.Helper()
	replica := &late{}
	srv, err := loop.New(loop.Config{
		ListenAddr: s.addr, Loops: loops, MaxConnections: loop.DefaultConnections, MaxWaiters: loop.DefaultWaiters,
		MaxTotalWaiters: loop.DefaultTotalWaiters, MaxKeys: loop.ClusterMaxKeys, DrainTimeout: time.Second, Replica: replica,
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := cluster.Open(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	replica.node.Store(node)
	s.srv, s.node = srv, node
	ctx, cancel := context.WithCancel(context.Background())
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	go func() { ran <- node.Run(ctx, srv) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil && !errors.Is(err, loop.ErrStopped) {
			t.Errorf("%s: the engine: %v", s.name, err)
		}
		if err := <-served; err != nil {
			t.Errorf("%s: the server: %v", s.name, err)
		}
	})
}

// leader waits until one of the sites serves, and returns it.
func leader(t *testing.T, sites []*site) *site {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, s := range sites {
			if s.srv.Leading() != 0 {
				return s
			}
		}
	}
	t.Fatal("nobody leads after 20 s")
	return nil
}

func newClient(t *testing.T, sites []*site) *client.Client {
	t.Helper()
	var addrs []string
	for _, s := range sites {
		addrs = append(addrs, s.addr)
	}
	c, err := client.New(client.Config{Addrs: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// What clients were told is what the cluster holds in the end, over leads that
// are handed on, lost and taken up again: every grant that was answered is held,
// under that token, and nothing is that was said not to have been done.
func TestServedThroughLeads(t *testing.T) {
	sites := startSites(t, 3, 2)
	leader(t, sites)
	var (
		mu      sync.Mutex
		granted = map[string]uint64{}
		undone  []string
		unknown int
		asking  sync.WaitGroup
		over    atomic.Bool
	)
	for g := range 8 {
		c := newClient(t, sites)
		asking.Go(func() {
			for i := 0; !over.Load() && i < 5000; i++ {
				time.Sleep(2 * time.Millisecond) // so that there are keys enough for all leads
				key := fmt.Sprintf("key-%d-of-%d", i, g)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				ticket, err := c.Acquire(ctx, key, 0, client.Lease(250*time.Second))
				cancel()
				mu.Lock()
				switch class := client.ClassOf(err); {
				case err == nil:
					granted[key] = ticket.Token()
				case class == client.ClassNotGranted || class == client.ClassNotExecuted:
					undone = append(undone, key)
				default:
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	answered := func() int { mu.Lock(); defer mu.Unlock(); return len(granted) }
	for round := range 6 {
		l := leader(t, sites)
		before := answered()
		for end := time.Now().Add(20 * time.Second); answered() < before+50 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if round%2 == 0 {
			if err := l.node.Transfer(t.Context(), ""); err != nil {
				t.Logf("transfer: %v", err)
			}
		} else {
			l.stop()
			l.start(t, 2)
		}
	}
	leader(t, sites)
	over.Store(true)
	asking.Wait()
	t.Logf("%d granted, %d not done, %d unknown", len(granted), len(undone), unknown)
	tokens := map[uint64]string{}
	for key, token := range granted {
		if other, ok := tokens[token]; ok {
			t.Fatalf("token %d for both %q and %q", token, key, other)
		}
		tokens[token] = key
	}
	c := newClient(t, sites)
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	for _, key := range undone {
		ticket, err := c.Acquire(within(), key, 0)
		if err != nil {
			t.Fatalf("%q, said not to be held: %v", key, err)
		}
		if len(tokens[ticket.Token()]) > 0 {
			t.Fatalf("token %d twice", ticket.Token())
		}
	}
	for key, token := range granted {
		if err := c.Release(within(), key, token); err != nil {
			t.Fatalf("%q, granted under token %d: %v", key, token, err)
		}
	}
	if len(granted) < 300 {
		t.Errorf("only %d grants", len(granted))
	}
}
