package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Config is what a node is made with. The comments name the settings.
type Config struct {
	Node    string // CLUSTER_NODE_ID: the node's name, never another node's
	Cluster string // CLUSTER_NAME: what nodes of different clusters are told apart by
	Peers   []Peer // CLUSTER_PEERS: the first members; for a node that joins, some members
	Listen  string // CLUSTER_LISTEN: host:port for the other nodes; empty: as in Peers
	Client  string // CLUSTER_ADVERTISE_CLIENT: host:port that clients are sent to
	Dir     string // CLUSTER_DATA_DIR: made if it is not there
	Join    bool   // CLUSTER_JOIN: a node without data waits to be added to a running cluster

	CertFile, KeyFile, CAFile string // CLUSTER_TLS_*: all or none
	AllowInsecure             bool   // ALLOW_INSECURE: no TLS between nodes on other than loopback addresses

	Loops         int          // loops that submit turns
	SnapshotEvery uint64       // entries between two snapshots; 0: 20,000
	Logger        *slog.Logger // nil: nothing is logged
}

// Peer is a node and where the others reach it.
type Peer struct {
	Name string
	Addr string // host:port
}

const maxName = 64 // bytes of a node's or a cluster's name

// ParsePeers reads CLUSTER_PEERS: name=host:port, several with commas.
func ParsePeers(text string) ([]Peer, error) {
	var peers []Peer
	for _, item := range strings.Split(text, ",") {
		name, addr, ok := strings.Cut(strings.TrimSpace(item), "=")
		if !ok {
			return nil, fmt.Errorf("CLUSTER_PEERS: %q: want name=host:port, several with commas", item)
		}
		peers = append(peers, Peer{Name: name, Addr: addr})
	}
	return peers, nil
}

// Validate reports the first setting that cannot be, with its value and what is
// allowed.
func (c *Config) Validate() error {
	if err := checkName("CLUSTER_NODE_ID", c.Node); err != nil {
		return err
	}
	if err := checkName("CLUSTER_NAME", c.Cluster); err != nil {
		return err
	}
	if err := c.checkPeers(); err != nil {
		return err
	}
	if err := checkAddr("CLUSTER_ADVERTISE_CLIENT", c.Client); err != nil {
		return err
	}
	if err := checkAddr("CLUSTER_LISTEN", c.listen()); err != nil {
		return err
	}
	switch {
	case c.Dir == "":
		return fmt.Errorf("CLUSTER_DATA_DIR is not set: want a directory of this node's own")
	case (c.CertFile == "") != (c.KeyFile == "") || (c.CertFile == "") != (c.CAFile == ""):
		return fmt.Errorf("CLUSTER_TLS_CERT_FILE=%q, CLUSTER_TLS_KEY_FILE=%q, CLUSTER_TLS_CA_FILE=%q: set all three or none",
			c.CertFile, c.KeyFile, c.CAFile)
	case c.CertFile == "" && !c.AllowInsecure && !isLoopback(c.listen()):
		return fmt.Errorf("CLUSTER_LISTEN=%q is not a loopback address: set CLUSTER_TLS_CERT_FILE, _KEY_FILE and _CA_FILE"+
			" (`ticketing certs` makes a start), or ALLOW_INSECURE=true", c.listen())
	case c.Loops < 1:
		return fmt.Errorf("%d loops; want at least 1", c.Loops)
	}
	return nil
}

func (c *Config) checkPeers() error {
	if len(c.Peers) == 0 {
		return fmt.Errorf("CLUSTER_PEERS is not set: want name=host:port, several with commas")
	}
	names, addrs := map[string]bool{}, map[string]bool{}
	for _, p := range c.Peers {
		if err := checkName("CLUSTER_PEERS", p.Name); err != nil {
			return err
		}
		if err := checkAddr("CLUSTER_PEERS", p.Addr); err != nil {
			return err
		}
		if names[p.Name] || addrs[p.Addr] {
			return fmt.Errorf("CLUSTER_PEERS: %s=%s: name or address is there twice", p.Name, p.Addr)
		}
		names[p.Name], addrs[p.Addr] = true, true
	}
	if !c.Join && !names[c.Node] {
		return fmt.Errorf("CLUSTER_PEERS does not name CLUSTER_NODE_ID=%q: add it, or set CLUSTER_JOIN=true to join a running cluster", c.Node)
	}
	if c.peerAddr() == "" {
		return fmt.Errorf("CLUSTER_LISTEN is not set and CLUSTER_PEERS does not name CLUSTER_NODE_ID=%q: set either", c.Node)
	}
	return nil
}

// peerAddr is where the others reach this node.
func (c *Config) peerAddr() string {
	for _, p := range c.Peers {
		if p.Name == c.Node {
			return p.Addr
		}
	}
	return c.Listen
}

func (c *Config) listen() string { return cmp.Or(c.Listen, c.peerAddr()) }

func checkName(setting, name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		return fmt.Errorf("%s: name %q: want 1 to %d letters, digits, '-', '_' and '.'", setting, name, maxName)
	}
	return nil
}

func checkAddr(setting, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" || len(addr) > 255 || strings.ContainsAny(addr, " \n/?#") {
		return fmt.Errorf("%s=%q: want host:port", setting, addr)
	}
	return nil
}

func isLoopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// NodeID is the ID of a node in the consensus. It follows from the name alone,
// so that the first members need not talk about it.
func NodeID(name string) uint64 { return usable(xxhash.Sum64String("node " + name)) }

// usable avoids the few IDs that mean something to raft.
func usable(id uint64) uint64 {
	if id == 0 || id > ^uint64(15) {
		return 1
	}
	return id
}

// clusterID tells clusters apart by their name and their first members.
func clusterID(name string, first []Peer) uint64 {
	first = slices.SortedFunc(slices.Values(first), func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	text := "cluster " + name
	for _, p := range first {
		text += "\n" + p.Name + "=" + p.Addr
	}
	return usable(xxhash.Sum64String(text))
}
