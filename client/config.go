package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"
)

// Config says how to reach a server. Only Addrs is required. New copies it.
type Config struct {
	// Addrs are the servers, each host:port; at least one. Of several (a
	// cluster) the client uses the one that leads.
	Addrs []string
	// Secret answers the server's challenge (protocol §8). Empty: no
	// authentication.
	Secret []byte
	// TLS wraps the connections. Nil: plaintext. An empty ServerName is filled
	// in from the address.
	TLS *tls.Config
	// Sessions is the most pipelined connections to an address; 0 means 2. The
	// second and further ones are opened when calls overlap.
	Sessions int
	// DialContext opens a connection. Nil: a net.Dialer that finds a dead peer
	// within half a minute. It must return when its context is done. The
	// connection's Close must end a blocked Read and Write, and its Write must
	// report how many bytes it has passed on, as package io demands: whether an
	// attempt was sent is decided by that number.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger is told of sessions that open and end, of steering, and of what a
	// server does wrong. Nil: silent.
	Logger *slog.Logger
}

// validate returns a copy with the defaults filled in.
func (cfg Config) validate() (Config, error) {
	if len(cfg.Addrs) == 0 {
		return cfg, errors.New("ticketing: Config.Addrs is empty")
	}
	cfg.Addrs = slices.Clone(cfg.Addrs)
	for i, addr := range cfg.Addrs {
		if err := checkAddr(addr); err != nil {
			return cfg, fmt.Errorf("ticketing: Config.Addrs: %w", err)
		}
		if slices.Contains(cfg.Addrs[:i], addr) {
			return cfg, fmt.Errorf("ticketing: Config.Addrs: %q is there twice", addr)
		}
	}
	switch {
	case cfg.Sessions == 0:
		cfg.Sessions = defaultSessions
	case cfg.Sessions < 0 || cfg.Sessions > maxSessions:
		return cfg, fmt.Errorf("ticketing: Config.Sessions is %d, want 0 to %d", cfg.Sessions, maxSessions)
	}
	cfg.Secret = bytes.Clone(cfg.Secret)
	if cfg.TLS != nil {
		cfg.TLS = cfg.TLS.Clone()
		cfg.TLS.DynamicRecordSizingDisabled = true // one record, one system call for a batch
	}
	if cfg.DialContext == nil {
		cfg.DialContext = (&net.Dialer{
			// Under 30 s for a peer that is gone without a word.
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	return cfg, nil
}

// checkAddr accepts host:port with a numeric port.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not host:port", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: port %q is not 1 to 65535", addr, port)
	}
	if host == "" {
		return fmt.Errorf("%q has no host", addr)
	}
	return nil
}
