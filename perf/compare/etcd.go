package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdLoad takes locks as etcd's package concurrency does, with less: one lease
// for a connection, a transaction that puts the key if it is not there, and a
// delete. There is no queue and no second key, so this is the least a lock costs.
// etcd's protocol is gRPC: its driver is its own client, with a goroutine for each
// slot, and the generator's CPU is not comparable.
type etcdLoad struct {
	server  *process
	clients []*clientv3.Client
	cancel  context.CancelFunc
	work    sync.WaitGroup
	turn    sync.RWMutex // held for writing between turns

	mu        sync.Mutex
	recording bool
	since     time.Time
	pairs     int64
	latency   histogram
	err       error
}

// leaseSeconds is that of a connection's lease, which outlives any measurement.
const leaseSeconds = 3600

func newEtcdLoad(p *process, connections, depth int) (*etcdLoad, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &etcdLoad{server: p, cancel: cancel}
	l.turn.Lock()
	for i := range connections {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{p.addr}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
		if err != nil {
			l.close()
			return nil, err
		}
		l.clients = append(l.clients, c)
		granting, done := context.WithTimeout(ctx, 10*time.Second)
		lease, err := c.Grant(granting, leaseSeconds)
		done()
		if err != nil {
			l.close()
			return nil, fmt.Errorf("etcd: connection %d: %w", i, err)
		}
		for range depth {
			l.work.Go(func() { l.pair(ctx, c, lease.ID) })
		}
	}
	return l, nil
}

// pair takes and gives back, until the end.
func (l *etcdLoad) pair(ctx context.Context, c *clientv3.Client, lease clientv3.LeaseID) {
	for ctx.Err() == nil {
		l.turn.RLock()
		key := rand.Text()[:keySize]
		start := time.Now()
		got, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, "", clientv3.WithLease(lease))).Commit()
		took := time.Since(start)
		if err == nil && !got.Succeeded {
			err = fmt.Errorf("key %s is held", key)
		}
		if err == nil {
			_, err = c.Delete(ctx, key)
		}
		l.mu.Lock()
		if err != nil && ctx.Err() == nil {
			l.err = err
		}
		if l.recording {
			l.pairs++
			if start.After(l.since) {
				l.latency.add(int64(took))
			}
		}
		l.mu.Unlock()
		l.turn.RUnlock()
	}
}

// run is load's.
func (l *etcdLoad) run(settle, d time.Duration) (slice, error) {
	l.since = time.Now()
	l.turn.Unlock()
	time.Sleep(settle)
	l.record(true)
	start := time.Now()
	m := slice{cpu: -l.server.cpu(), own: -ownCPU()}
	for patience := start.Add(10 * time.Second); ; { // a turn may be too short for it
		time.Sleep(d)
		if l.done() > 0 || time.Now().After(patience) {
			break
		}
	}
	m.wall = time.Since(start)
	m.cpu += l.server.cpu()
	m.own += ownCPU()
	l.record(false)
	l.turn.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	m.pairs, l.pairs = l.pairs, 0
	if l.err == nil && m.pairs == 0 {
		l.err = fmt.Errorf("nothing done within %v", m.wall)
	}
	if l.err != nil {
		return slice{}, fmt.Errorf("etcd: %w", l.err)
	}
	return m, nil
}

func (l *etcdLoad) record(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recording = on
}

func (l *etcdLoad) done() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pairs
}

func (l *etcdLoad) latencies() *histogram { return &l.latency }

// close is called between turns.
func (l *etcdLoad) close() {
	l.cancel()
	l.turn.Unlock()
	l.work.Wait()
	for _, c := range l.clients {
		c.Close()
	}
}
