package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// Nodes ask each other who they are: often, and on a new connection each time.
// The answer tells a node that its instance is refused or that it was removed,
// tells a newcomer who the members are, tells the leader addresses that have
// changed, and shows that a node that was cut off can be reached again.

const (
	helloPath  = "/ticketing/hello"
	helloEvery = 500 * time.Millisecond
	maxHello   = 64 << 10
)

// hello is what a node says of itself.
type hello struct {
	Cluster   string `json:"cluster"`
	ClusterID uint64 `json:"cluster_id,string"` // 0: joins, and does not know it yet
	Node      string `json:"node"`
	Instance  string `json:"instance"`
	Peer      string `json:"peer"`
	Client    string `json:"client"`
}

// helloAnswer is what the other says to that.
type helloAnswer struct {
	Refused   string         `json:"refused,omitempty"` // why, and what to do
	Final     bool           `json:"final,omitempty"`   // refused for good: the node must stop
	ClusterID uint64         `json:"cluster_id,string"`
	Applied   uint64         `json:"applied"`
	Members   []state.Member `json:"members"`
}

// answer is what came of a question to a node.
type answer struct {
	id   uint64
	said helloAnswer
	err  error
}

// errRemoved ends a node that was taken out.
var errRemoved = errors.New("this node was removed from the cluster; to take it in again: move CLUSTER_DATA_DIR away, " +
	"`ticketing cluster add`, and start it with CLUSTER_JOIN=true")

func (n *Node) hello() hello {
	return hello{n.cfg.Cluster, n.identity.ClusterID, n.cfg.Node, n.identity.Instance, n.cfg.peerAddr(), n.cfg.Client}
}

// handleHello answers another node.
func (n *Node) handleHello(w http.ResponseWriter, r *http.Request) {
	var h hello
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHello)).Decode(&h); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v := n.view.Load()
	a := helloAnswer{ClusterID: n.identity.ClusterID, Applied: n.meter.applied.Load(), Members: v.Members}
	m, known := v.member(NodeID(h.Node))
	switch {
	case h.Cluster != n.cfg.Cluster:
		a.Refused = fmt.Sprintf("CLUSTER_NAME=%q, but node %s is of cluster %q", h.Cluster, n.cfg.Node, n.cfg.Cluster)
	case h.ClusterID != 0 && h.ClusterID != n.identity.ClusterID:
		a.Refused = fmt.Sprintf("node %s was first started with other CLUSTER_PEERS than node %s: they must be the same on all first nodes; "+
			"stop it, move its CLUSTER_DATA_DIR away and start it with the right ones", h.Node, n.cfg.Node)
	case known && m.Instance != "" && h.Instance != "" && m.Instance != h.Instance:
		a.Final = true
		a.Refused = fmt.Sprintf("node %s has another disk than the one that is a member (its data were lost or replaced), "+
			"and must not vote again under this name: `ticketing cluster remove %s`, then move its CLUSTER_DATA_DIR away, "+
			"`ticketing cluster add %s`, and start it with CLUSTER_JOIN=true", h.Node, h.Node, h.Node)
	case known && v.Role != core.Follower && h.Instance != "":
		n.maybeUpdate(m, h)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the other asks again
}

// maybeUpdate replicates what has changed of a member. The leader calls it.
func (n *Node) maybeUpdate(m state.Member, h hello) {
	now := m
	now.Instance, now.Peer, now.Client = h.Instance, h.Peer, h.Client
	if now == m || now.Validate() != nil || checkAddr("peer", now.Peer) != nil || checkAddr("client", now.Client) != nil {
		return
	}
	n.inbox.call(func(c *core.Core) {
		if is, ok := c.Machine().Member(now.ID); ok && is == m {
			_ = c.SetMember(now) // asked again at the next hello
		}
	})
}

// ask asks one node.
func ask(ctx context.Context, client *http.Client, base string, h hello) (a helloAnswer, err error) {
	body, err := json.Marshal(h)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+helloPath, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("answered %s", resp.Status)
	}
	return a, json.NewDecoder(io.LimitReader(resp.Body, maxHello)).Decode(&a)
}

// introduce replicates what has changed of this node itself, if it leads.
func (n *Node) introduce() {
	if v := n.view.Load(); v.Role != core.Follower {
		if m, ok := v.member(n.id); ok {
			n.maybeUpdate(m, n.hello())
		}
	}
}

// askAll asks every other node that is not being asked.
func (l *links) askAll(ctx context.Context, answers chan<- answer) {
	n := l.node
	n.introduce()
	h := n.hello()
	for id, p := range l.known {
		if p.asking {
			continue
		}
		p.asking = true
		base := n.cfg.scheme() + "://" + p.member.Peer
		go func() {
			said, err := ask(ctx, l.client, base, h)
			select {
			case answers <- answer{id, said, err}:
			case <-ctx.Done():
			}
		}()
	}
}

// hear takes note of an answer.
func (l *links) hear(a *answer) {
	p := l.known[a.id]
	if p == nil {
		return
	}
	p.asking = false
	if a.err != nil {
		if p.silent++; p.silent == 4 {
			l.node.log.Warn("a node cannot be reached", "node", p.member.Name, "peer", p.member.Peer, "error", a.err)
		}
		return
	}
	if p.silent > 0 {
		if p.silent >= 4 {
			l.node.log.Info("a node can be reached again", "node", p.member.Name)
		}
		p.silent = 0
		l.renew(p)
	}
	l.judge(p, &a.said)
}

// judge draws the consequences of what another node says.
func (l *links) judge(p *peer, said *helloAnswer) {
	n := l.node
	if said.Refused != "" {
		if said.Final {
			n.stop(fmt.Errorf("node %s refuses this node: %s", p.member.Name, said.Refused))
		} else if !p.warned {
			p.warned = true
			n.log.Error("a node refuses this one", "node", p.member.Name, "reason", said.Refused)
		}
		return
	}
	p.warned = false
	_, member := n.view.Load().member(n.id)
	listed := false
	for _, m := range said.Members {
		listed = listed || m.ID == n.id
	}
	switch {
	case member && !listed && said.Applied > n.meter.applied.Load():
		n.stop(errRemoved) // it knows more than we do, and not us
	case !member && len(n.view.Load().Members) == 0:
		for _, m := range said.Members { // a newcomer needs links before the log comes
			if m.ID != n.id {
				l.link(m)
			}
		}
	}
}

// join finds the cluster for a node without data, and makes its disk.
func (n *Node) join(ctx context.Context) error {
	client, err := newClient(&n.cfg)
	if err != nil {
		return err
	}
	h := hello{Cluster: n.cfg.Cluster, Node: n.cfg.Node, Peer: n.cfg.peerAddr(), Client: n.cfg.Client}
	n.log.Info("looking for the cluster to join", "peers", n.cfg.Peers)
	for {
		for _, p := range n.cfg.Peers {
			if p.Name == n.cfg.Node {
				continue
			}
			a, err := ask(ctx, client, n.cfg.scheme()+"://"+p.Addr, h)
			switch {
			case err != nil:
				n.log.Debug("no answer", "peer", p.Name, "error", err)
			case a.Refused != "":
				return fmt.Errorf("node %s refuses this node: %s", p.Name, a.Refused)
			default:
				return n.joinAt(p, &a)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(helloEvery):
		}
	}
}

// joinAt makes the disk of a node that joins, with links to the members.
func (n *Node) joinAt(p Peer, a *helloAnswer) error {
	for _, m := range a.Members {
		if m.ID == n.id && m.Instance != "" {
			return fmt.Errorf("node %s knows %s as a member with another disk: `ticketing cluster remove %s` and `ticketing cluster add %s` first",
				p.Name, n.cfg.Node, n.cfg.Node, n.cfg.Node)
		}
	}
	n.identity = newIdentity(&n.cfg, a.ClusterID)
	var k *kept
	var err error
	if n.disk, k, err = found(n.cfg.Dir, n.identity, nil, n.log); err != nil {
		return err
	}
	n.log.Info("found the cluster; waiting to be added, by `ticketing cluster add`, if that has not been done", "node", p.Name)
	return n.boot(k)
}
