package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startNodes starts a cluster of three, each on a loopback address of its own and
// with its log in a directory of its own. What it returns is to be stopped, after
// an error too.
func startNodes(o *options, dir string) (nodes []*process, err error) {
	var names, peers []string
	ports := map[string]string{}
	for i := range 3 {
		name := "n" + strconv.Itoa(i+1)
		names = append(names, name)
		for _, what := range []string{"client", "admin", "peer"} {
			if ports[name+what], err = freeAddr("127.0.1." + strconv.Itoa(i+1)); err != nil {
				return nil, err
			}
		}
		peers = append(peers, name+"="+ports[name+"peer"])
	}
	for _, name := range names {
		p := &process{name: "node " + name, addr: ports[name+"client"], admin: ports[name+"admin"], cmd: exec.Command(o.binary, "serve")}
		p.cmd.Env = append(os.Environ(), "LISTEN_ADDR="+p.addr, "ADMIN_ADDR="+p.admin, "CLUSTER_NODE_ID="+name,
			"CLUSTER_NAME=compare", "CLUSTER_PEERS="+strings.Join(peers, ","), "CLUSTER_DATA_DIR="+filepath.Join(dir, name))
		if p, err = launch(p, false); err != nil {
			return nodes, err
		}
		nodes = append(nodes, p)
	}
	return nodes, nil
}

func freeAddr(host string) (string, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// clusterLoad is a generator on the leader, whoever that is.
type clusterLoad struct {
	nodes    []*process
	patience time.Duration // for somebody to lead
	work     workload

	leader  int
	g       *generator
	latency histogram // of the generators that are no more
	moved   int
}

// run is a turn, and the CPU of a follower for each pair in it. A turn in which
// the lead is lost is begun again.
func (c *clusterLoad) run(settle, d time.Duration) (m slice, behind float64, err error) {
	for range 5 {
		if c.g == nil {
			if err = c.find(); err == nil {
				c.g, err = newGenerator(c.nodes[c.leader], newTicketingProtocol(), c.work)
			}
			if err != nil {
				c.g = nil
				return m, 0, err
			}
		}
		pairs, cpu := c.g.pairs, c.cpuBehind()
		if m, err = c.g.run(settle, d); err == nil {
			return m, micros(int64(c.cpuBehind()-cpu)) / float64(len(c.nodes)-1) / float64(max(1, c.g.pairs-pairs)), nil
		}
		c.drop()
		c.moved++
	}
	return m, 0, err
}

// drop ends the generator and keeps its latencies.
func (c *clusterLoad) drop() {
	if c.g != nil {
		c.latency.merge(c.g.latencies())
		c.g.close()
		c.g = nil
	}
}

// find waits until somebody leads.
func (c *clusterLoad) find() error {
	for end := time.Now().Add(c.patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for i, p := range c.nodes {
			if n, err := countsOf(p); err == nil && n.leads {
				c.leader = i
				return nil
			}
		}
	}
	var said []error
	for _, p := range c.nodes {
		said = append(said, errors.New(p.name+": "+p.said.String()))
	}
	return fmt.Errorf("nobody leads: %w", errors.Join(said...))
}

// cpuBehind is the CPU time of all followers.
func (c *clusterLoad) cpuBehind() (sum time.Duration) {
	for i, p := range c.nodes {
		if i != c.leader {
			sum += p.cpu()
		}
	}
	return sum
}

// counts are what a node counts, as its metrics have it.
type counts struct {
	at                time.Time
	leads             bool
	entries, releases float64
	fsyncs            []bucket
}

// bucket is one of a histogram: how many took at most so long.
type bucket struct{ seconds, count float64 }

func (c *clusterLoad) counts() (all []counts, err error) {
	for _, p := range c.nodes {
		n, err := countsOf(p)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

func countsOf(p *process) (n counts, err error) {
	answer, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		return n, err
	}
	defer answer.Body.Close()
	n.at = time.Now()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue // a comment
		}
		name = strings.TrimPrefix(name, "ticketing_")
		switch {
		case name == "cluster_leads":
			n.leads = v == 1
		case name == "cluster_proposals_total":
			n.entries = v
		case strings.HasPrefix(name, "releases_total"):
			n.releases += v
		case strings.HasPrefix(name, `cluster_fsync_seconds_bucket{le="`):
			le, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimPrefix(name, `cluster_fsync_seconds_bucket{le="`), `"}`), 64)
			n.fsyncs = append(n.fsyncs, bucket{le, v})
		}
	}
	return n, lines.Err()
}

// fsyncSince is the median since then in µs, as if what is in a bucket were spread
// evenly; 0 if there was none.
func (n *counts) fsyncSince(then *counts) float64 {
	if len(n.fsyncs) == 0 || len(then.fsyncs) != len(n.fsyncs) {
		return 0
	}
	since := func(i int) float64 { return n.fsyncs[i].count - then.fsyncs[i].count }
	half := since(len(n.fsyncs)-1) / 2
	if half == 0 {
		return 0
	}
	from, below := 0.0, 0.0
	for i := range n.fsyncs {
		if c := since(i); c >= half {
			return 1e6 * (from + (n.fsyncs[i].seconds-from)*(half-below)/(c-below))
		} else {
			from, below = n.fsyncs[i].seconds, c
		}
	}
	return 0
}
