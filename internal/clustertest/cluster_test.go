package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/internal/admin"

	"ticketing/internal/transcript"
)

const (
	// patience is how long anything may take before a test gives up: far more
	// than it does on a busy machine.
	patience = 90 * time.Second

	// pollEvery is how often a node is asked whether it has come so far.
	pollEvery = 20 * time.Millisecond
)

// A cluster is some nodes of a test.
type cluster struct {
	t     *testing.T
	dir   string
	net   string   // the first three bytes of the nodes' addresses
	env   []string // settings of every node
	peers string   // CLUSTER_PEERS of the first nodes
	nodes []*node
}

// A node is one node; its process may be running or not.
type node struct {
	c      *cluster
	name   string
	host   string
	cmd    *exec.Cmd
	stderr *transcript.Buffer
	ended  chan struct{}
}

// newCluster makes a cluster of first nodes that are not started yet.
func newCluster(t *testing.T, first int, env ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), env: env}
	// 127.0.0.0/8 is large: that two tests meet is not to be expected.
	c.net = fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), rand.IntN(250))
	var peers []string
	for range first {
		n := c.add()
		peers = append(peers, n.name+"="+n.peer())
	}
	c.peers = strings.Join(peers, ",")
	return c
}

// add makes one more node.
func (c *cluster) add() *node {
	i := len(c.nodes) + 1
	n := &node{c: c, name: fmt.Sprintf("n%d", i), host: fmt.Sprintf("%s.%d", c.net, i)}
	c.nodes = append(c.nodes, n)
	return n
}

func (n *node) client() string { return n.host + ":7400" }
func (n *node) admin() string  { return n.host + ":7401" }
func (n *node) peer() string   { return n.host + ":7402" }
func (n *node) data() string   { return filepath.Join(n.c.dir, n.name) }

// start runs ticketing serve with the node's settings.
func (n *node) start(more ...string) *node {
	n.c.t.Helper()
	n.cmd = exec.Command(binary, "serve")
	n.cmd.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0",
		"LISTEN_ADDR=" + n.client(), "ADMIN_ADDR=" + n.admin(), "LOOPS=2",
		"CLUSTER_NODE_ID=" + n.name, "CLUSTER_PEERS=" + n.c.peers, "CLUSTER_DATA_DIR=" + n.data(),
	}, n.c.env, more)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.stderr = &transcript.Buffer{}
	n.cmd.Stderr = n.stderr
	n.ended = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		n.c.t.Fatal(err)
	}
	cmd, ended, stderr := n.cmd, n.ended, n.stderr
	go func() {
		cmd.Wait()
		close(ended)
	}()
	n.c.t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if n.c.t.Failed() {
			n.c.t.Logf("log of %s:\n%s", n.name, stderr)
		}
	})
	return n
}

// startAll starts every node and waits until one serves and the others follow
// it.
func (c *cluster) startAll() *cluster {
	c.t.Helper()
	for _, n := range c.nodes {
		n.start()
	}
	c.settled()
	return c
}

func (n *node) running() bool {
	if n.ended == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal.
func (n *node) signal(s os.Signal) {
	n.c.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.c.t.Fatal(err)
	}
}

// exits waits for the end of the process and returns what it logged.
func (n *node) exits(code int) string {
	n.c.t.Helper()
	select {
	case <-n.ended:
	case <-time.After(patience):
		n.c.t.Fatalf("%s does not end", n.name)
	}
	if got := n.cmd.ProcessState.ExitCode(); got != code {
		n.c.t.Fatalf("%s ended with %v, want exit code %d:\n%s", n.name, n.cmd.ProcessState, code, n.stderr)
	}
	return n.stderr.String()
}

func (n *node) kill() {
	n.c.t.Helper()
	n.signal(syscall.SIGKILL)
	<-n.ended
}

// get asks the admin endpoint; code 0: there is no answer.
func (n *node) get(path string) (code int, body []byte) {
	c := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + n.admin() + path)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, _ = io.ReadAll(resp.Body)
	return resp.StatusCode, body
}

// status is what the node says of the cluster; empty if it does not answer.
func (n *node) status() (s admin.ClusterStatus) {
	if _, body := n.get("/cluster"); json.Unmarshal(body, &s) != nil {
		return admin.ClusterStatus{}
	}
	return s
}

// until polls until ok.
func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			for _, n := range c.nodes {
				c.t.Logf("%s: %+v", n.name, n.status())
			}
			c.t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// settled waits until one of the running nodes serves, and all of them know it
// and the addresses of all members. It returns the leader.
func (c *cluster) settled() (leader *node) {
	c.t.Helper()
	c.until("one leader that all follow", func() bool {
		leader = nil
		var first admin.ClusterStatus
		for _, n := range c.nodes {
			if !n.running() {
				continue
			}
			s := n.status()
			if first.Leader == "" {
				first = s
			}
			if s.Leader == "" || s.Leader != first.Leader || s.Term != first.Term || s.LeaderClient == "" {
				return false
			}
			if s.Serving {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// follower returns a running node that does not lead.
func (c *cluster) follower(leader *node) *node {
	for _, n := range c.nodes {
		if n != leader && n.running() {
			return n
		}
	}
	c.t.Fatal("nobody follows")
	return nil
}

// addrs are the client addresses of all nodes; admins their admin endpoints.
func (c *cluster) addrs() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.client())
	}
	return all
}

func (c *cluster) admins() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.admin())
	}
	return strings.Join(all, ",")
}

// dial returns the official client, with all addresses.
func (c *cluster) dial() *client.Client {
	c.t.Helper()
	cl, err := client.New(client.Config{Addrs: c.addrs()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cl.Close() })
	return cl
}

// command runs a command of the program and returns what it printed.
func (c *cluster) command(code int, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // its exit code is looked at
	if got := cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("ticketing %v: exit code %d, want %d\n%s", args, got, code, out.String())
	}
	return out.String()
}

// change runs ticketing cluster with the admin endpoints of all nodes.
func (c *cluster) change(args ...string) string {
	c.t.Helper()
	return c.command(0, append(append([]string{"cluster"}, args...), "--admin-addr="+c.admins())...)
}

// members are the names of the members as a node sees them, learners with a
// question mark.
func (n *node) members() (names []string) {
	for _, m := range n.status().Members {
		name := m.Name
		if !m.Voter {
			name += "?"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// raw is a connection by hand.
type raw struct {
	t *testing.T
	net.Conn
}

func (n *node) raw() *raw {
	n.c.t.Helper()
	conn, err := net.DialTimeout("tcp", n.client(), patience)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.c.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &raw{n.c.t, conn}
}

// acquire writes an acquire with a lease of 250 s.
func (r *raw) acquire(wait byte, owner byte, key string) {
	r.t.Helper()
	frame := append([]byte{'A', wait, 250, 0, 0, 0, 0, 0, 0, 0, owner}, key+"\n"...)
	if _, err := r.Write(frame); err != nil {
		r.t.Fatal(err)
	}
}

// rest reads to the end of the stream.
func (r *raw) rest() string {
	r.t.Helper()
	all, err := io.ReadAll(r)
	if err != nil && len(all) == 0 {
		r.t.Fatal(err)
	}
	return string(all)
}

// frame reads n bytes.
func (r *raw) frame(n int) string {
	r.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}
