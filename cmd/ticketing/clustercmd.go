package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"ticketing/internal/admin"
)

// clusterCmd shows and changes a cluster over the admin endpoints of its nodes.
type clusterCmd struct {
	Status   clusterStatusCmd   `cmd:"" help:"Show the cluster as a node sees it."`
	Add      clusterAddCmd      `cmd:"" help:"Take a node in; start it with CLUSTER_JOIN=true afterwards."`
	Remove   clusterRemoveCmd   `cmd:"" help:"Take a node out for good."`
	Transfer clusterTransferCmd `cmd:"" help:"Hand the lead over to another node."`
}

// nodesFlags say which nodes are asked. Changes are made by the leader, which
// is looked for among them: nodes know the others' addresses for clients only.
type nodesFlags struct {
	AdminAddr addresses `env:"ADMIN_ADDR" default:"127.0.0.1:7401" range:"host:port, or several with commas, none twice" placeholder:"HOST:PORT,..." help:"The admin endpoint of a node; of several, the leader's is found."`
}

type clusterStatusCmd struct {
	nodesFlags
	JSON bool `name:"json" help:"Print what the node says, as JSON; of several nodes, one object a node."`
}

type clusterAddCmd struct {
	nodesFlags
	Name   fileName `arg:"" range:"1 to 64 letters, digits and . _ -" help:"Its CLUSTER_NODE_ID."`
	Peer   hostPort `required:"" range:"host:port" placeholder:"HOST:PORT" help:"Where the other nodes reach it: its entry in CLUSTER_PEERS."`
	Client hostPort `required:"" range:"host:port" placeholder:"HOST:PORT" help:"Where clients reach it: its CLUSTER_ADVERTISE_CLIENT."`
}

type clusterRemoveCmd struct {
	nodesFlags
	Name fileName `arg:"" range:"1 to 64 letters, digits and . _ -" help:"Its CLUSTER_NODE_ID."`
}

type clusterTransferCmd struct {
	nodesFlags
	Name *fileName `arg:"" optional:"" range:"1 to 64 letters, digits and . _ -" help:"The next leader's CLUSTER_NODE_ID; left out: the node best suited."`
}

// Run shows what each node says; what one says that is down comes last, as the
// error.
func (c *clusterStatusCmd) Run(ctx context.Context, p *process) error {
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	var failed error
	for i, addr := range c.AdminAddr.list() {
		body, err := askCluster(ctx, addr, http.MethodGet, "/cluster", nil)
		var status admin.ClusterStatus
		if err == nil && (json.Unmarshal(body, &status) != nil || status.Node == "") {
			err = errors.New("the answer is not that of a ticketing node")
		}
		if err != nil {
			failed = &exitError{exitNoSession, fmt.Errorf("cluster status of %s: %w", addr, err)}
			if len(c.AdminAddr.list()) > 1 {
				p.complain(failed)
				failed = statusError(exitNoSession)
			}
			continue
		}
		if c.JSON {
			_, err = p.stdout.Write(body)
		} else {
			if i > 0 {
				fmt.Fprintln(p.stdout)
			}
			err = writeCluster(p.stdout, &status)
		}
		if err != nil {
			return err
		}
	}
	return failed
}

// Run takes a node in.
func (c *clusterAddCmd) Run(ctx context.Context, p *process) error {
	for _, f := range []struct {
		name string
		addr hostPort
	}{{"--peer", c.Peer}, {"--client", c.Client}} {
		if !f.addr.connectable() {
			return settingFailed(&settingError{f.name, strconv.Quote(string(f.addr)), "allowed is a host:port that others can connect to"})
		}
	}
	err := c.change(ctx, p, "add", &admin.ClusterChange{Name: string(c.Name), Peer: string(c.Peer), Client: string(c.Client)})
	if err == nil {
		_, err = fmt.Fprintf(p.stdout, "%s is a member; start it with CLUSTER_JOIN=true. It votes when it has caught up.\n", c.Name)
	}
	return err
}

// Run takes a node out.
func (c *clusterRemoveCmd) Run(ctx context.Context, p *process) error {
	err := c.change(ctx, p, "remove", &admin.ClusterChange{Name: string(c.Name)})
	if err == nil {
		_, err = fmt.Fprintf(p.stdout, "%s is no member any more; stop it, and never start it again with the same CLUSTER_DATA_DIR.\n", c.Name)
	}
	return err
}

// Run hands the lead over.
func (c *clusterTransferCmd) Run(ctx context.Context, p *process) error {
	var to admin.ClusterChange
	if c.Name != nil {
		to.Name = string(*c.Name)
	}
	err := c.change(ctx, p, "transfer", &to)
	if err == nil {
		_, err = fmt.Fprintln(p.stdout, "the lead is handed over.")
	}
	return err
}

// rounds is how often several nodes are gone through for the leader, and
// betweenRounds the pause: the lead may move while they are asked, and does when
// the leader itself is to be removed.
const (
	rounds        = 5
	betweenRounds = 300 * time.Millisecond
)

// change has the leader make a change. Of several nodes, those that say that
// they are not the leader, or that do not answer, are passed over.
func (f *nodesFlags) change(ctx context.Context, p *process, what string, body *admin.ClusterChange) error {
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	several := len(f.AdminAddr.list()) > 1
	for round := 1; ; round++ {
		notLeader, err := f.round(ctx, what, data)
		if notLeader == nil || !several || round == rounds {
			return cmp.Or(notLeader, err)
		}
		time.Sleep(betweenRounds)
	}
}

// round asks each node once. It returns the error of one that is not the leader,
// if none made the change or refused it, and otherwise what came of it.
func (f *nodesFlags) round(ctx context.Context, what string, data []byte) (notLeader, err error) {
	var unreachable error
	for _, addr := range f.AdminAddr.list() {
		_, err := askCluster(ctx, addr, http.MethodPost, "/cluster/"+what, data)
		if err == nil {
			return nil, nil
		}
		told := fmt.Errorf("cluster %s at %s: %w", what, addr, err)
		var refused *refusedChange
		switch {
		case !errors.As(err, &refused):
			unreachable = &exitError{exitNoSession, told}
		case refused.answer.NotLeader:
			notLeader = environmentFailed(told)
		case refused.answer.Unknown:
			return nil, &exitError{exitIndeterminate, told}
		default:
			return nil, environmentFailed(told)
		}
	}
	return notLeader, unreachable
}

// refusedChange is an answer of a node that is not yes.
type refusedChange struct{ answer admin.ClusterAnswer }

func (r *refusedChange) Error() string {
	a := &r.answer
	switch {
	case a.NotLeader && a.Leader != "":
		return fmt.Sprintf("%s; the leader is %s, whose clients connect to %s: ask its admin endpoint, or give those of all nodes in --admin-addr",
			a.Error, a.Leader, a.LeaderClient)
	case a.NotLeader:
		return a.Error + ", and no leader is known: ask again when there is one"
	}
	return a.Error
}

// clusterPatience bounds the exchange with one node: longer than a node takes
// for a change at most.
const clusterPatience = 12 * time.Second

// askCluster asks one node, and returns its answer if it is yes.
func askCluster(ctx context.Context, addr, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, clusterPatience, errors.New("no answer within "+clusterPatience.String()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil || resp.StatusCode == http.StatusOK {
		return answer, err
	}
	var refused refusedChange
	if json.Unmarshal(answer, &refused.answer) != nil || refused.answer.Error == "" {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil, &refused
}

// writeCluster writes what a node knows of its cluster as tables.
func writeCluster(out io.Writer, s *admin.ClusterStatus) error {
	var text bytes.Buffer
	what := "knows no leader"
	switch {
	case s.Serving:
		what = "leads"
	case s.Leader == s.Node && s.Leader != "":
		what = "is the leader, and does not serve yet"
	case s.Leader != "":
		what = "follows " + s.Leader
	}
	fmt.Fprintln(&text, oneLine(fmt.Sprintf("cluster %s: %s %s, term %d", s.Cluster, s.Node, what, s.Term)))
	table(&text, func(row func(cells ...any)) {
		row("AGREED UP TO", "APPLIED", "SNAPSHOT", "KEYS", "LAST TOKEN", "PROPOSALS", "ELECTIONS WON", "LEADERS SEEN")
		row(s.Commit, s.Applied, s.SnapshotIndex, s.Keys, s.Token, s.Counts.Proposals, s.Counts.Elections, s.Counts.Leaders)
	})
	table(&text, func(row func(cells ...any)) {
		row("MEMBER", "ROLE", "PEER", "CLIENTS", "HEARD OF", "LOG UP TO")
		for i := range s.Members {
			m := &s.Members[i]
			role, heard, match := "follower", "-", "-"
			switch {
			case m.Name == s.Leader:
				role = "leader"
			case !m.Voter:
				role = "learner"
			}
			if m.Active != nil {
				heard = map[bool]string{true: "lately", false: "not lately"}[*m.Active]
			}
			if m.Match != nil {
				match = fmt.Sprint(*m.Match)
			}
			row(m.Name, role, m.Peer, m.Client, heard, match)
		}
	})
	_, err := out.Write(text.Bytes())
	return err
}
