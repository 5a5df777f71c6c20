package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"golang.org/x/sys/unix"
)

const (
	// deadAfter is how long sent bytes may stay unacknowledged before the kernel
	// gives a connection up. Without it one that was cut comes back only when
	// TCP's ever longer pauses end.
	deadAfter = 3 * time.Second

	dialTimeout = time.Second
)

// listen takes the address for other nodes.
func listen(cfg *Config) (net.Listener, error) {
	lc := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			if cerr := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
			}); cerr != nil {
				return cerr
			}
			return err
		},
	}
	ln, err := lc.Listen(context.Background(), "tcp", cfg.listen())
	if err != nil {
		return nil, fmt.Errorf("CLUSTER_LISTEN=%q: %w", cfg.listen(), err)
	}
	if cfg.CertFile == "" {
		return ln, nil
	}
	info := cfg.tls()
	server, err := info.ServerConfig()
	if err != nil {
		ln.Close()
		return nil, fmt.Errorf("CLUSTER_TLS_CERT_FILE, _KEY_FILE, _CA_FILE: %w", err)
	}
	server.NextProtos = []string{"http/1.1"}
	return tls.NewListener(ln, server), nil
}

// tls describes how this node dials and is dialled: certificates both ways, or
// none. If it listens on a loopback address it dials from there, so that nodes
// on one machine can be told apart by it.
func (c *Config) tls() transport.TLSInfo {
	info := transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile, ClientCertAuth: c.CAFile != ""}
	host, _, _ := net.SplitHostPort(c.listen())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() && ip.Is4() {
		info.LocalAddr = host
	}
	return info
}

func (c *Config) scheme() string {
	if c.CertFile == "" {
		return "http"
	}
	return "https"
}

// newClient makes a client for questions to other nodes: each on a connection of
// its own, so that the answer says whether one can be made now.
func newClient(cfg *Config) (*http.Client, error) {
	info := cfg.tls()
	t := &http.Transport{DisableKeepAlives: true}
	if cfg.CertFile != "" {
		client, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("CLUSTER_TLS_CERT_FILE, _KEY_FILE, _CA_FILE: %w", err)
		}
		t.TLSClientConfig = client
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	if info.LocalAddr != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(info.LocalAddr)}
	}
	t.DialContext = dialer.DialContext
	return &http.Client{Transport: t, Timeout: 2 * dialTimeout}, nil
}
