package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A cluster is the nodes of a run, and the network between them.
type cluster struct {
	net     *network
	nodes   []*node // all there can be; the last one, the spare, joins and leaves
	members map[string]bool
	binary  string
	dir     string
	single  bool
	disk    diskKind
}

// voters is how many nodes a cluster begins with.
const voters = 3

// newCluster plans the nodes in a directory. Nothing runs yet.
func newCluster(binary, dir string, disk diskKind, single bool) *cluster {
	c := &cluster{net: newNetwork(), members: map[string]bool{}, binary: binary, dir: dir, single: single, disk: disk}
	count := voters + 1
	if single {
		count = 1
	}
	var peers []string
	for i := range count {
		n := &node{name: fmt.Sprint("n", i+1), ip: fmt.Sprintf("127.0.1.%d", i+1), dir: dir, binary: binary, disk: disk}
		c.nodes = append(c.nodes, n)
		if i < voters {
			peers = append(peers, n.name+"="+n.peerAddr())
			c.members[n.name] = true
		}
	}
	for i, n := range c.nodes {
		n.env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GOTRACEBACK=all", "LOOPS=2", "DRAIN_TIMEOUT=5s",
			"LISTEN_ADDR=" + n.clientAddr(), "ADMIN_ADDR=" + n.adminAddr(), "LOG_LEVEL=debug",
		}
		if single {
			continue
		}
		known := peers
		if i >= voters {
			known = append(append([]string{}, peers...), n.name+"="+n.peerAddr())
			n.env = append(n.env, "CLUSTER_JOIN=true")
		}
		n.env = append(n.env, "CLUSTER_NAME=chaos", "CLUSTER_NODE_ID="+n.name, "CLUSTER_DATA_DIR="+n.diskDir(),
			"CLUSTER_PEERS="+strings.Join(known, ","), "CLUSTER_ADVERTISE_CLIENT="+n.clientAddr())
	}
	return c
}

// current returns the nodes that are members.
func (c *cluster) current() (nodes []*node) {
	for _, n := range c.nodes {
		if c.single || c.members[n.name] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (c *cluster) clientAddrs() (addrs []string) {
	for _, n := range c.nodes {
		addrs = append(addrs, n.clientAddr())
	}
	return addrs[:min(len(addrs), voters)]
}

// start makes the disks and starts every member.
func (c *cluster) start(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.prepare(); err != nil {
			return err
		}
	}
	return c.startMembers(ctx)
}

// startMembers starts every member that does not run, all at once.
func (c *cluster) startMembers(ctx context.Context) error {
	return each(c.current(), func(n *node) error { return n.start(ctx) })
}

// each does something with every node at once.
func each(nodes []*node, do func(n *node) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = do(n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// kill ends everything.
func (c *cluster) kill() {
	for _, n := range c.nodes {
		n.kill()
	}
}

// control runs a command of the cluster against a node.
func (c *cluster) control(ctx context.Context, at *node, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"cluster"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "ADMIN_ADDR=" + at.adminAddr()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cluster %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
