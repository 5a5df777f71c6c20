package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"ticketing/cluster"
	"ticketing/loop"
)

// A lead that comes to a node whose server has just ended its drain changes
// nothing about the end; one that a server refuses for no such reason does.
func TestLeadThatComesDuringTheEnd(t *testing.T) {
	n := &node{log: slog.New(slog.DiscardHandler)}
	n.systemd = manager{n.log}
	failed, leave := leadAfterTheEnd(t, n)
	err := <-failed
	leave()
	if !errors.Is(err, loop.ErrStopped) {
		t.Fatalf("the engine ended with %v", err)
	}
	await := func(ctx context.Context, failure, end error) error {
		failures, ends := make(chan error), make(chan error)
		go func() { failures <- failure; ends <- end }()
		return n.await(ctx, func() {}, make(chan os.Signal), ends, failures)
	}
	draining, cancel := context.WithCancel(t.Context())
	cancel()
	if got := await(draining, err, nil); got != nil {
		t.Errorf("while it drained: %v", got)
	}
	other := errors.New("another")
	for what, c := range map[string]struct {
		ctx               context.Context
		failure, end, why error
	}{
		"without a drain":                     {t.Context(), err, nil, err},
		"of a server that ends with an error": {draining, err, other, other},
	} {
		if got := await(c.ctx, c.failure, c.end); !errors.Is(got, c.why) {
			t.Errorf("%s: %v", what, got)
		}
	}
	failures := make(chan error, 1)
	failures <- other
	if got := n.await(draining, func() {}, nil, nil, failures); !errors.Is(got, other) {
		t.Errorf("another failure during a drain: %v", got)
	}
}

// leadAfterTheEnd has n take part, with a server that has ended.
func leadAfterTheEnd(t *testing.T, n *node) (failed <-chan error, leave func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	n.member, err = cluster.Open(cluster.Config{Node: "n1", Cluster: "end", Peers: []cluster.Peer{{Name: "n1", Addr: addr}},
		Client: "127.0.0.1:1", Dir: t.TempDir(), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	n.server, err = loop.New(loop.Config{ListenAddr: "127.0.0.1:0", Loops: 1, MaxConnections: 1, MaxWaiters: 1, MaxTotalWaiters: 1,
		MaxKeys: 1, DrainTimeout: time.Second, Replica: n.member})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.server.Serve(over); err != nil {
		t.Fatal(err)
	}
	return n.takePart(t.Context())
}
