package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"

	"ticketing/cluster"
	"ticketing/loop"
)

// clusterFlags are the settings of cluster mode, which CLUSTER_NODE_ID turns on.
type clusterFlags struct {
	ClusterNodeID          text     `name:"cluster-node-id" env:"CLUSTER_NODE_ID" range:"1 to 64 letters, digits and . _ -" placeholder:"NAME" help:"Turns cluster mode on: the name of this node, which no other has."`
	ClusterName            text     `name:"cluster-name" env:"CLUSTER_NAME" default:"ticketing" range:"1 to 64 letters, digits and . _ -" placeholder:"NAME" help:"The name of the cluster: nodes of another one are refused."`
	ClusterPeers           text     `name:"cluster-peers" env:"CLUSTER_PEERS" range:"NAME=host:port, several with commas" placeholder:"NAME=HOST:PORT,..." help:"The first members and where the others reach them, the same on all; for a node that joins, some members."`
	ClusterListen          hostPort `name:"cluster-listen" env:"CLUSTER_LISTEN" shown:"this node's address in CLUSTER_PEERS" range:"host:port" placeholder:"HOST:PORT" help:"Where this node listens for the others."`
	ClusterAdvertiseClient hostPort `name:"cluster-advertise-client" env:"CLUSTER_ADVERTISE_CLIENT" shown:"LISTEN_ADDR, if others can connect to it" range:"host:port" placeholder:"HOST:PORT" help:"Where clients are sent when this node leads."`
	ClusterDataDir         text     `name:"cluster-data-dir" env:"CLUSTER_DATA_DIR" range:"a directory of this node's own; made if it is not there" placeholder:"DIR" help:"Where the log and the snapshots are."`
	ClusterJoin            toggle   `name:"cluster-join" env:"CLUSTER_JOIN" default:"false" range:"true/false" help:"A node without data waits to be added to a running cluster, instead of founding one. With data it changes nothing."`

	ClusterTLSCertFile text `name:"cluster-tls-cert-file" env:"CLUSTER_TLS_CERT_FILE" range:"a file of certificates in PEM" placeholder:"FILE" help:"Mutual TLS between the nodes: what this one shows, both where it listens and where it connects. Together with the two below; a must where CLUSTER_LISTEN is not loopback."`
	ClusterTLSKeyFile  text `name:"cluster-tls-key-file" env:"CLUSTER_TLS_KEY_FILE" range:"a file with a private key in PEM" placeholder:"FILE" help:"The private key of that certificate."`
	ClusterTLSCAFile   text `name:"cluster-tls-ca-file" env:"CLUSTER_TLS_CA_FILE" range:"a file of certificates in PEM" placeholder:"FILE" help:"The authorities that vouch for nodes, and for nodes alone: whoever has a certificate of theirs can be one."`
}

// How errors call the settings that more than their own check looks at.
const (
	nodeSetting        = "CLUSTER_NODE_ID (--cluster-node-id)"
	advertiseSetting   = "CLUSTER_ADVERTISE_CLIENT (--cluster-advertise-client)"
	clusterCertSetting = "CLUSTER_TLS_CERT_FILE (--cluster-tls-cert-file)"
	clusterKeySetting  = "CLUSTER_TLS_KEY_FILE (--cluster-tls-key-file)"
	clusterCASetting   = "CLUSTER_TLS_CA_FILE (--cluster-tls-ca-file)"
	maxKeysSetting     = "MAX_KEYS (--max-keys)"
)

// clusterFiles is how many file descriptors the other nodes, the log and the
// snapshots may take.
const clusterFiles = 160 + cluster.MaxStrangers

// clusterConfig returns what the settings make of this node, or nil without an
// error when it is a single one. What does not depend on another setting the
// engine checks, by the same names.
func (c *serveCmd) clusterConfig() (*cluster.Config, error) {
	if !c.ClusterNodeID.given {
		return nil, c.refuseClusterSettings()
	}
	if c.MaxKeys != loop.DefaultKeys {
		return nil, &settingError{maxKeysSetting, strconv.Quote(strconv.Itoa(int(c.MaxKeys))),
			fmt.Sprintf("of a single node; a cluster has %d, allowed is to leave it unset", loop.ClusterMaxKeys)}
	}
	client := c.ClusterAdvertiseClient
	if client == "" {
		if client = c.ListenAddr; !client.connectable() {
			return nil, &settingError{setting: advertiseSetting, problem: fmt.Sprintf(
				"is missing: no client can be sent to LISTEN_ADDR, %q; allowed is host:port", string(client))}
		}
	} else if !client.connectable() {
		return nil, &settingError{advertiseSetting, strconv.Quote(string(client)), "allowed is a host:port that clients can connect to"}
	}
	cfg := &cluster.Config{
		Node: c.ClusterNodeID.value, Cluster: c.ClusterName.value,
		Listen: string(c.ClusterListen), Client: string(client),
		Dir: c.ClusterDataDir.value, Join: bool(c.ClusterJoin),
		CertFile: c.ClusterTLSCertFile.value, KeyFile: c.ClusterTLSKeyFile.value, CAFile: c.ClusterTLSCAFile.value,
		AllowInsecure: bool(c.AllowInsecure),
		Loops:         int(c.Loops),
	}
	if c.ClusterPeers.given {
		var err error
		if cfg.Peers, err = cluster.ParsePeers(c.ClusterPeers.value); err != nil {
			return nil, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return cfg, c.checkClusterTLS()
}

// refuseClusterSettings is for a single node: somebody who sets any of these
// must not be given one by mistake.
func (c *serveCmd) refuseClusterSettings() error {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"CLUSTER_PEERS", c.ClusterPeers.given}, {"CLUSTER_LISTEN", c.ClusterListen != ""},
		{"CLUSTER_ADVERTISE_CLIENT", c.ClusterAdvertiseClient != ""}, {"CLUSTER_DATA_DIR", c.ClusterDataDir.given},
		{"CLUSTER_JOIN", bool(c.ClusterJoin)}, {"CLUSTER_NAME", c.ClusterName.value != "ticketing"},
		{"CLUSTER_TLS_CERT_FILE", c.ClusterTLSCertFile.given}, {"CLUSTER_TLS_KEY_FILE", c.ClusterTLSKeyFile.given},
		{"CLUSTER_TLS_CA_FILE", c.ClusterTLSCAFile.given},
	} {
		if f.given {
			return &settingError{setting: nodeSetting, problem: "is missing, and " + f.name + " is set: set both for a cluster, neither for a single node"}
		}
	}
	return nil
}

// checkClusterTLS looks whether the files are of use to each other, which would
// otherwise show in the other nodes' logs.
func (c *serveCmd) checkClusterTLS() error {
	if !c.ClusterTLSCertFile.given {
		return nil
	}
	cert := pemFile{clusterCertSetting, c.ClusterTLSCertFile.value}
	pair, err := loadPair(cert, pemFile{clusterKeySetting, c.ClusterTLSKeyFile.value})
	if err != nil {
		return err
	}
	pool, err := loadAuthorities(pemFile{clusterCASetting, c.ClusterTLSCAFile.value})
	if err != nil {
		return err
	}
	return vouchedFor(cert, &pair, pool)
}

// vouchedFor checks that a certificate may be shown by a node, whichever of two
// connects to the other.
func vouchedFor(file pemFile, pair *tls.Certificate, pool *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(cert)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			continue // a warning of the log: the other nodes' clocks count
		}
		if err != nil {
			return file.bad(err, "a certificate that "+clusterCASetting+" vouches for, to be shown to clients and to servers alike")
		}
	}
	return nil
}

// insecurePeers reports whether nodes are neither encrypted nor known to each
// other, where other machines may be.
func insecurePeers(cfg *cluster.Config) bool {
	strict := *cfg
	strict.AllowInsecure = false
	return strict.Validate() != nil
}
