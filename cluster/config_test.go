package cluster

import (
	"strings"
	"testing"
)

func good() Config {
	return Config{Node: "n1", Cluster: "c", Client: "127.0.0.1:7400", Dir: "d", Loops: 1,
		Peers: []Peer{{"n1", "127.0.0.1:1"}, {"n2", "127.0.0.1:2"}}}
}

// What cannot be is refused with the setting and its value.
func TestValidate(t *testing.T) {
	ok := good()
	if err := ok.Validate(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", maxName)
	for _, c := range []struct {
		want   string // "": valid
		change func(*Config)
	}{
		{"", func(c *Config) { c.Cluster = long }},
		{`CLUSTER_NAME: name "` + long + `y"`, func(c *Config) { c.Cluster = long + "y" }},
		{`CLUSTER_NODE_ID: name ""`, func(c *Config) { c.Node = "" }},
		{`CLUSTER_NODE_ID: name "a b"`, func(c *Config) { c.Node = "a b" }},
		{"CLUSTER_PEERS is not set", func(c *Config) { c.Peers = nil }},
		{`does not name CLUSTER_NODE_ID="n3"`, func(c *Config) { c.Node = "n3" }},
		{"", func(c *Config) { c.Node, c.Join, c.Listen = "n3", true, "127.0.0.1:3" }},
		{"CLUSTER_LISTEN is not set", func(c *Config) { c.Node, c.Join = "n3", true }},
		{"there twice", func(c *Config) { c.Peers[1].Name = "n1" }},
		{"there twice", func(c *Config) { c.Peers[1].Addr = "127.0.0.1:1" }},
		{`CLUSTER_PEERS="nowhere"`, func(c *Config) { c.Peers[1].Addr = "nowhere" }},
		{`CLUSTER_ADVERTISE_CLIENT=":7400"`, func(c *Config) { c.Client = ":7400" }},
		{`CLUSTER_LISTEN="x"`, func(c *Config) { c.Listen = "x" }},
		{"CLUSTER_DATA_DIR", func(c *Config) { c.Dir = "" }},
		{"all three or none", func(c *Config) { c.CertFile, c.KeyFile = "a", "b" }},
		{`"10.0.0.1:1" is not a loopback address`, func(c *Config) { c.Listen = "10.0.0.1:1" }},
		{"", func(c *Config) { c.Listen, c.AllowInsecure = "10.0.0.1:1", true }},
		{"", func(c *Config) { c.Listen, c.CertFile, c.KeyFile, c.CAFile = "10.0.0.1:1", "a", "b", "c" }},
		{"0 loops", func(c *Config) { c.Loops = 0 }},
	} {
		cfg := good()
		c.change(&cfg)
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

func TestParsePeers(t *testing.T) {
	peers, err := ParsePeers("n1=a:1, n2=b:2")
	if err != nil || len(peers) != 2 || peers[1] != (Peer{"n2", "b:2"}) {
		t.Errorf("%v, %v", peers, err)
	}
	if _, err := ParsePeers("n1=a:1,n2"); err == nil {
		t.Error("a peer without an address is taken")
	}
}

// The IDs follow from names, differ, and are none that mean something to raft.
func TestIDs(t *testing.T) {
	if a, b := NodeID("n1"), NodeID("n2"); a == b || a == 0 || a != NodeID("n1") {
		t.Errorf("%x and %x", a, b)
	}
	for _, id := range []uint64{0, ^uint64(0), ^uint64(0) - 1} {
		if usable(id) == id {
			t.Errorf("%x is used", id)
		}
	}
	p := good().Peers
	if clusterID("c", p) != clusterID("c", []Peer{p[1], p[0]}) || clusterID("c", p) == clusterID("d", p) || clusterID("c", p) == clusterID("c", p[:1]) {
		t.Error("a cluster's ID does not follow from its name and first members")
	}
}
