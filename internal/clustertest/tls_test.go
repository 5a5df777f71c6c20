package clustertest

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Nodes with the certificates of ticketing certs talk to each other, and to
// nobody else.
func TestTLSBetweenNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	dir := filepath.Join(c.dir, "certs")
	settings := func(n *node, dir string) []string {
		return []string{
			"CLUSTER_TLS_CERT_FILE=" + filepath.Join(dir, n.name+".crt"),
			"CLUSTER_TLS_KEY_FILE=" + filepath.Join(dir, n.name+".key"),
			"CLUSTER_TLS_CA_FILE=" + filepath.Join(dir, "nodes-ca.crt"),
		}
	}
	args := []string{"certs", "--dir=" + dir, "--client=app"}
	for _, n := range c.nodes {
		args = append(args, n.name+"="+n.host)
	}
	c.command(0, args...)
	// The third has certificates of another authority.
	other := filepath.Join(c.dir, "other")
	c.command(0, "certs", "--dir="+other, "n3="+c.nodes[2].host)
	for _, n := range c.nodes[:2] {
		n.start(settings(n, dir)...)
	}
	third := c.nodes[2].start(settings(c.nodes[2], other)...)
	one := c.nodes[0]
	c.until("two nodes of three find each other", func() bool { return one.status().Leader != "" })
	if s := third.status(); s.Leader != "" {
		t.Errorf("a node with certificates of another authority follows %s", s.Leader)
	}
	third.kill()
	if err := os.RemoveAll(third.data()); err != nil {
		t.Fatal(err)
	}
	third.start(settings(third, dir)...)
	c.settled()
	if _, err := c.dial().Acquire(t.Context(), "k", 0); err != nil {
		t.Error(err)
	}

	for name, cfg := range map[string]*tls.Config{
		"nobody":   {},
		"a client": {Certificates: []tls.Certificate{pair(t, dir, "app-client")}},
	} {
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM(read(t, dir, "nodes-ca.crt"))
		if got := speak(t, one.peer(), cfg); strings.HasPrefix(got, "HTTP/") {
			t.Errorf("%s is answered: %q", name, got)
		}
	}
	if got := speak(t, one.peer(), nil); strings.Contains(got, "200 OK") {
		t.Errorf("plaintext is answered: %q", got)
	}
	// The same question of a node is answered, so the refusals mean something.
	node := &tls.Config{Certificates: []tls.Certificate{pair(t, dir, "n2")}, RootCAs: x509.NewCertPool()}
	node.RootCAs.AppendCertsFromPEM(read(t, dir, "nodes-ca.crt"))
	if got := speak(t, one.peer(), node); !strings.HasPrefix(got, "HTTP/") {
		t.Errorf("a node is answered %q", got)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pair(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair(read(t, dir, name+".crt"), read(t, dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// speak asks for a page and returns what the answer begins with; nil: without
// TLS.
func speak(t *testing.T, addr string, cfg *tls.Config) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if cfg != nil {
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
		conn = tls.Client(conn, cfg)
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		return ""
	}
	b := make([]byte, 100)
	n, _ := conn.Read(b)
	return string(b[:n])
}
