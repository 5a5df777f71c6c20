package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ticketing/internal/admin"
	"ticketing/loop"
)

// member is a node of a cluster as far as its admin endpoint goes.
type member struct {
	status  admin.ClusterStatus
	err     error // of every change
	changes []string
}

func (m *member) Status() admin.ClusterStatus { return m.status }

func (m *member) Add(_ context.Context, name, peer, client string) error {
	m.changes = append(m.changes, fmt.Sprintf("add %s %s %s", name, peer, client))
	return m.err
}

func (m *member) Remove(_ context.Context, name string) error {
	m.changes = append(m.changes, "remove "+name)
	return m.err
}

func (m *member) Transfer(_ context.Context, name string) error {
	m.changes = append(m.changes, "transfer "+name)
	return m.err
}

// Ready and Snapshot make it an admin.Source.
func (m *member) Ready() bool                                 { return true }
func (m *member) Snapshot(context.Context, int) loop.Snapshot { return loop.Snapshot{Ready: true} }

// serveMember has its admin endpoint served, and returns the address.
func serveMember(t *testing.T, m *member) string {
	t.Helper()
	s, err := admin.New(admin.Config{Source: m, Cluster: m, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// runCommand runs a command in this process.
func runCommand(t *testing.T, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &process{stdout: &out, stderr: &errs, environ: environ}
	code = p.main(t.Context(), args)
	return out.String(), errs.String(), code
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestClusterTables(t *testing.T) {
	leader := &member{status: admin.ClusterStatus{
		Cluster: "shop", Node: "n1", Role: "leader", Serving: true, Term: 7, Leader: "n1", LeaderClient: "10.0.0.1:7400",
		Commit: 1005, Applied: 1004, SnapshotIndex: 900, Keys: 17, Token: 4711,
		Members: []admin.ClusterMember{
			{Name: "n1", Peer: "10.0.0.1:7402", Client: "10.0.0.1:7400", Voter: true},
			{Name: "n2", Peer: "10.0.0.2:7402", Client: "10.0.0.2:7400", Voter: true, Active: new(true), Match: new(uint64(1005))},
			{Name: "n3", Peer: "10.0.0.3:7402", Client: "10.0.0.3:7400", Active: new(false), Match: new(uint64(3))},
		},
		Counts: admin.ClusterCounts{Proposals: 31, Elections: 2, Leaders: 5},
	}}
	want := `cluster shop: n1 leads, term 7

AGREED UP TO  APPLIED  SNAPSHOT  KEYS  LAST TOKEN  PROPOSALS  ELECTIONS WON  LEADERS SEEN
1005          1004     900       17    4711        31         2              5

MEMBER  ROLE      PEER           CLIENTS        HEARD OF    LOG UP TO
n1      leader    10.0.0.1:7402  10.0.0.1:7400  -           -
n2      follower  10.0.0.2:7402  10.0.0.2:7400  lately      1005
n3      learner   10.0.0.3:7402  10.0.0.3:7400  not lately  3
`
	addr := serveMember(t, leader)
	if stdout, stderr, code := runCommand(t, []string{"ADMIN_ADDR=" + addr}, "cluster", "status"); stdout != want || stderr != "" || code != 0 {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", code, stderr, stdout, want)
	}
	stdout, _, code := runCommand(t, nil, "cluster", "status", "--json", "--admin-addr="+addr)
	if code != 0 || !strings.Contains(stdout, `"leader_client": "10.0.0.1:7400"`) {
		t.Errorf("exit %d\n%s", code, stdout)
	}
	for says, status := range map[string]admin.ClusterStatus{
		"cluster shop: n2 follows n1, term 3":                                {Cluster: "shop", Node: "n2", Leader: "n1", Term: 3},
		"cluster shop: n2 knows no leader, term 3":                           {Cluster: "shop", Node: "n2", Term: 3},
		"cluster shop: n2 is the leader, and does not serve yet, term 3":     {Cluster: "shop", Node: "n2", Leader: "n2", Term: 3},
		`cluster shop\x1b: n2 is the leader, and does not serve yet, term 3`: {Cluster: "shop\x1b", Node: "n2", Leader: "n2", Term: 3},
	} {
		var out bytes.Buffer
		if err := writeCluster(&out, &status); err != nil || !strings.HasPrefix(out.String(), says+"\n") {
			t.Errorf("%s, want %s", out.String(), says)
		}
	}
	// Of several nodes, those that are up are shown.
	down := nobody(t)
	stdout, stderr, code := runCommand(t, nil, "cluster", "status", "--admin-addr="+down+","+addr)
	if code != exitNoSession || !strings.Contains(stdout, "n1 leads") || !strings.Contains(stderr, down) {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestClusterChanges(t *testing.T) {
	leader := &member{status: admin.ClusterStatus{Node: "n1", Leader: "n1"}}
	follower := &member{status: admin.ClusterStatus{Node: "n2", Leader: "n1", LeaderClient: "10.0.0.1:7400"}, err: admin.ErrNotLeader}
	lost := &member{status: admin.ClusterStatus{Node: "n3"}, err: admin.ErrNotLeader}
	at, atFollower, atLost, down := serveMember(t, leader), serveMember(t, follower), serveMember(t, lost), nobody(t)
	for _, c := range []struct {
		addrs  string
		args   []string
		err    error // of the leader
		change string
		code   int
		says   string
	}{
		{at, []string{"add", "n4", "--peer=10.0.0.4:7402", "--client=10.0.0.4:7400"}, nil,
			"add n4 10.0.0.4:7402 10.0.0.4:7400", 0, "n4 is a member; start it with CLUSTER_JOIN=true"},
		{at, []string{"remove", "n2"}, nil, "remove n2", 0, "n2 is no member any more"},
		{at, []string{"transfer"}, nil, "transfer ", 0, "handed over"},
		{at, []string{"transfer", "n2"}, nil, "transfer n2", 0, "handed over"},
		{down + "," + atFollower + "," + at, []string{"transfer", "n3"}, nil, "transfer n3", 0, "handed over"},
		{at, []string{"remove", "n9"}, errors.New("n9 is no member"), "remove n9", exitEnvironment, "n9 is no member"},
		{at, []string{"remove", "n2"}, context.DeadlineExceeded, "remove n2", exitIndeterminate, "it may be yet"},
		{atFollower, []string{"remove", "n2"}, nil, "", exitEnvironment, "the leader is n1, whose clients connect to 10.0.0.1:7400"},
		{atFollower + "," + down, []string{"remove", "n2"}, nil, "", exitEnvironment, "the leader is n1"},
		{atLost, []string{"remove", "n2"}, nil, "", exitEnvironment, "no leader is known"},
		{down, []string{"remove", "n2"}, nil, "", exitNoSession, "connection refused"},
		{at, []string{"remove", "../n2"}, nil, "", exitSetting, `NAME is "../n2": allowed is 1 to 64 letters`},
		{at, []string{"remove"}, nil, "", exitSetting, "name"},
		{at, []string{"add", "n4", "--peer=10.0.0.4:7402"}, nil, "", exitSetting, "--client"},
		{at, []string{"add", "n4", "--peer=10.0.0.4:7402", "--client=:7400"}, nil, "", exitSetting, "--client is \":7400\""},
		{at, []string{"add", "n4", "--peer=10.0.0.4:0", "--client=h:7400"}, nil, "", exitSetting, "--peer is \"10.0.0.4:0\""},
		{at, []string{"add", "n4", "--peer=0.0.0.0:1", "--client=h:7400"}, nil, "", exitSetting, "--peer is \"0.0.0.0:1\""},
	} {
		leader.changes, leader.err = nil, c.err
		stdout, stderr, code := runCommand(t, []string{"ADMIN_ADDR=" + c.addrs}, append([]string{"cluster"}, c.args...)...)
		said := stdout
		if code != 0 {
			said = stderr
			if stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%v: stdout %q, stderr %q", c.args, stdout, stderr)
			}
		}
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: exit %d, %s; want %d, %q", c.args, code, said, c.code, c.says)
		}
		if got := strings.Join(leader.changes, "; "); got != c.change {
			t.Errorf("%v: the leader was told %q, want %q", c.args, got, c.change)
		}
	}
}

// A single node and another server are told from a node of a cluster.
func TestClusterOfSomethingElse(t *testing.T) {
	single, err := admin.New(admin.Config{Source: &member{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for says, handler := range map[string]http.Handler{
		"this node is not in a cluster": single.Handler(),
		"the answer is 404 Not Found":   http.NotFoundHandler(),
		"the answer is not that of a ticketing node": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				http.Error(w, "no", http.StatusTeapot)
				return
			}
			w.Write([]byte("{}"))
		}),
	} {
		server := httptest.NewServer(handler)
		defer server.Close()
		env := []string{"ADMIN_ADDR=" + server.Listener.Addr().String()}
		if stdout, stderr, code := runCommand(t, env, "cluster", "status"); code != exitNoSession || stdout != "" || !strings.Contains(stderr, says) {
			t.Errorf("exit %d: %q %q, want %q", code, stdout, stderr, says)
		}
		if _, stderr, code := runCommand(t, env, "cluster", "remove", "n2"); code != exitEnvironment && code != exitNoSession || stderr == "" {
			t.Errorf("exit %d: %q", code, stderr)
		}
	}
}
