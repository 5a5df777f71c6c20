package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"ticketing/shard"
)

// fakeCluster is a cluster that says and does what a test tells it to.
type fakeCluster struct {
	status  ClusterStatus
	changes chan string
	err     error
}

func (f *fakeCluster) Status() ClusterStatus { return f.status }

func (f *fakeCluster) Add(_ context.Context, name, peer, client string) error {
	f.changes <- fmt.Sprintf("add %s %s %s", name, peer, client)
	return f.err
}

func (f *fakeCluster) Remove(_ context.Context, name string) error {
	f.changes <- "remove " + name
	return f.err
}

func (f *fakeCluster) Transfer(_ context.Context, name string) error {
	f.changes <- "transfer " + name
	return f.err
}

// busyCluster is the status of a leader with a different number in every field.
func busyCluster() ClusterStatus {
	s := ClusterStatus{
		Cluster: "ticketing", Node: "n1", Role: "leader", Serving: true, Term: 7, Leader: "n1", LeaderClient: "10.0.0.1:7400",
		Commit: 1005, Applied: 1004, SnapshotIndex: 900, Keys: 17, Token: 4711,
		Members: []ClusterMember{
			{Name: "n1", ID: "00000000000000a1", Peer: "10.0.0.1:7402", Client: "10.0.0.1:7400", Instance: "i1", Voter: true},
			{Name: "n2", ID: "00000000000000a2", Client: "10.0.0.2:7400", Voter: true, Active: new(true), Match: new(uint64(1003))},
			{Name: "n3", ID: "00000000000000a3", Client: "10.0.0.3:7400", Active: new(false), Match: new(uint64(12))},
		},
		Counts: ClusterCounts{Proposals: 31, Turns: 32, Reads: 33, Dropped: 34, Elections: 35, Leaders: 36, Misfits: 37, Snapshots: 38},
		Hashes: []StateHash{{Index: 1024, Hash: "00000000deadbeef"}},
	}
	s.Fsync.Buckets[2], s.Fsync.Buckets[shard.HistogramBuckets-1], s.Fsync.SumNanos = 8, 1, 2_500_000_000
	return s
}

func newClusterServer(t *testing.T, f *fakeCluster) *Server {
	t.Helper()
	f.changes = make(chan string, 1)
	s, err := New(Config{
		Source: newFake(), Cluster: f, Build: Build{Version: "v1.2.3"},
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClusterMetrics(t *testing.T) {
	s := newClusterServer(t, &fakeCluster{status: busyCluster()})
	got, _ := scrape(t, s)
	want := map[string]float64{
		"ticketing_cluster_leads": 1, "ticketing_cluster_leader_known": 1, "ticketing_cluster_term": 7,
		"ticketing_cluster_commit_index": 1005, "ticketing_cluster_applied_index": 1004, "ticketing_cluster_snapshot_index": 900,
		"ticketing_cluster_keys": 17, "ticketing_cluster_last_token": 4711,
		"ticketing_cluster_members{vote=voter}": 2, "ticketing_cluster_members{vote=learner}": 1,
		"ticketing_cluster_member_active{member=n2}": 1, "ticketing_cluster_member_active{member=n3}": 0,
		"ticketing_cluster_member_match_index{member=n2}": 1003, "ticketing_cluster_member_match_index{member=n3}": 12,
		"ticketing_cluster_proposals_total": 31, "ticketing_cluster_turns_total": 32, "ticketing_cluster_reads_total": 33,
		"ticketing_cluster_dropped_turns_total": 34, "ticketing_cluster_elections_total": 35,
		"ticketing_cluster_leader_changes_total": 36, "ticketing_cluster_misfits_total": 37, "ticketing_cluster_snapshots_total": 38,
		"ticketing_cluster_fsync_seconds_count": 9, "ticketing_cluster_fsync_seconds_sum": 2.5,
	}
	for id, value := range want {
		if v, ok := got[id]; !ok || v != value {
			t.Errorf("%s = %v (there: %v), want %v", id, v, ok, value)
		}
	}
	for id := range got {
		if _, known := want[id]; strings.HasPrefix(id, "ticketing_cluster_") && !known && !strings.Contains(id, "_bucket{") {
			t.Errorf("%s is shown and not looked at here", id)
		}
	}
	problems, err := testutil.GatherAndLint(s.registry())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	single, _ := scrape(t, newServer(t, newFake()))
	for id := range single {
		if strings.HasPrefix(id, "ticketing_cluster_") {
			t.Errorf("a single node has %s", id)
		}
	}
}

func TestReadyNeedsALeader(t *testing.T) {
	f := &fakeCluster{status: busyCluster()}
	s := newClusterServer(t, f)
	for _, leader := range []string{"n1", ""} {
		f.status.Leader = leader
		wantCode, wantMetric := 200, 1.0
		if leader == "" {
			wantCode, wantMetric = 503, 0
		}
		if code, body, _ := request(t, s, "GET", "/readyz"); code != wantCode || (code == 503) != strings.Contains(body, "no leader") {
			t.Errorf("leader %q: %d %s", leader, code, body)
		}
		if samples, _ := scrape(t, s); samples["ticketing_ready"] != wantMetric || samples["ticketing_cluster_leader_known"] != wantMetric {
			t.Errorf("leader %q: ready %v", leader, samples["ticketing_ready"])
		}
	}
}

func TestClusterStatus(t *testing.T) {
	s := newClusterServer(t, &fakeCluster{status: busyCluster()})
	_, body, _ := request(t, s, "GET", "/status")
	var status Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	if c := status.Cluster; c == nil || c.Term != 7 || len(c.Members) != 3 || *c.Members[1].Match != 1003 || len(c.Hashes) != 0 {
		t.Errorf("%+v", status.Cluster)
	}
	_, body, _ = request(t, s, "GET", "/cluster")
	var cluster ClusterStatus
	if err := json.Unmarshal([]byte(body), &cluster); err != nil || cluster.Counts != busyCluster().Counts || cluster.Hashes[0].Hash != "00000000deadbeef" {
		t.Errorf("%v %+v", err, cluster)
	}
	single := newServer(t, newFake())
	if code, body, _ := request(t, single, "GET", "/cluster"); code != 404 || !strings.Contains(body, "not in a cluster") {
		t.Errorf("%d %s", code, body)
	}
	if _, body, _ := request(t, single, "GET", "/status"); strings.Contains(body, `"cluster"`) {
		t.Errorf("a single node has a cluster: %s", body)
	}
}

// post sends a change over a real connection.
func post(t *testing.T, url, path, body string, header ...string) (int, ClusterAnswer) {
	t.Helper()
	req, err := http.NewRequest("POST", url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer ClusterAnswer
	data, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(data, &answer); err != nil && resp.StatusCode != 405 {
		t.Errorf("%s: %q", path, data)
	}
	return resp.StatusCode, answer
}

func TestClusterChanges(t *testing.T) {
	f := &fakeCluster{status: busyCluster()}
	url, _ := listen(t, newClusterServer(t, f))
	for _, c := range []struct{ path, body, want string }{
		{"/cluster/add", `{"name":"n4","peer":"10.0.0.4:7402","client":"10.0.0.4:7400"}`, "add n4 10.0.0.4:7402 10.0.0.4:7400"},
		{"/cluster/remove", `{"name":"n2"}`, "remove n2"},
		{"/cluster/transfer", `{}`, "transfer "},
	} {
		if code, answer := post(t, url, c.path, c.body); code != 200 || answer != (ClusterAnswer{}) {
			t.Errorf("%s: %d %+v", c.path, code, answer)
		} else if got := <-f.changes; got != c.want {
			t.Errorf("%s: %s", c.path, got)
		}
	}
	f.status.Leader, f.status.LeaderClient = "n2", "10.0.0.2:7400"
	for _, c := range []struct {
		err  error
		code int
		want ClusterAnswer
	}{
		{fmt.Errorf("no such member"), 409, ClusterAnswer{Error: "no such member"}},
		{fmt.Errorf("add: %w", ErrNotLeader), 409, ClusterAnswer{
			Error: "add: this node is not the leader", NotLeader: true, Leader: "n2", LeaderClient: "10.0.0.2:7400"}},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), 504, ClusterAnswer{
			Error: "not known to be done after 8s; it may be yet: look at the status", Unknown: true}},
	} {
		f.err = c.err
		if code, answer := post(t, url, "/cluster/remove", `{"name":"n2"}`); code != c.code || answer != c.want {
			t.Errorf("%v: %d %+v", c.err, code, answer)
		}
		<-f.changes
	}
}

// Nobody can change a cluster from a web page, through a proxy or with anything
// but a POST of JSON.
func TestClusterChangesThatAreRefused(t *testing.T) {
	f := &fakeCluster{status: busyCluster(), err: errors.New("must not be asked")}
	url, _ := listen(t, newClusterServer(t, f))
	good := `{"name":"n2"}`
	for name, c := range map[string]struct {
		body   string
		header []string
		code   int
	}{
		"a form":              {good, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		"a page":              {good, []string{"Origin", "http://example.org"}, 403},
		"a page by another":   {good, []string{"Sec-Fetch-Site", "same-origin"}, 403},
		"a proxy":             {good, []string{"X-Forwarded-For", "10.0.0.9"}, 403},
		"another proxy":       {good, []string{"Forwarded", "for=10.0.0.9"}, 403},
		"a proxy's signature": {good, []string{"Via", "1.1 proxy"}, 403},
		"no JSON":             {"name=n2", nil, 400},
		"another field":       {`{"name":"n2","force":true}`, nil, 400},
		"no end":              {`{"name":"` + strings.Repeat("n", maxChange) + `"}`, nil, 400},
		"nothing":             {"", nil, 400},
	} {
		if code, answer := post(t, url, "/cluster/remove", c.body, c.header...); code != c.code || answer.Error == "" {
			t.Errorf("%s: %d %+v", name, code, answer)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		req, _ := http.NewRequest(method, url+"/cluster/remove", strings.NewReader(good))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 405 {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
	single, _ := listen(t, newServer(t, newFake()))
	if code, answer := post(t, single, "/cluster/remove", good); code != 404 || !strings.Contains(answer.Error, "not in a cluster") {
		t.Errorf("%d %+v", code, answer)
	}
	select {
	case change := <-f.changes:
		t.Errorf("asked for: %s", change)
	default:
	}
}

// A connection from another machine changes nothing, whatever the endpoint
// listens on.
func TestChangesComeFromThisMachine(t *testing.T) {
	for _, c := range []struct {
		remote, local string
		may           bool
	}{
		{"127.0.0.1:5000", "127.0.0.1:7401", true},
		{"127.0.1.3:5000", "127.0.1.1:7401", true},
		{"[::1]:5000", "[::1]:7401", true},
		{"[::ffff:127.0.0.1]:5000", "[::ffff:127.0.0.1]:7401", true},
		{"10.0.0.1:5000", "10.0.0.1:7401", true},
		{"[::ffff:10.0.0.1]:5000", "10.0.0.1:7401", true},
		{"10.0.0.2:5000", "10.0.0.1:7401", false},
		{"10.0.0.2:5000", "", false},
		{"10.0.0.2:5000", "nonsense", false},
		{"@", "127.0.0.1:7401", false},
		{"", "127.0.0.1:7401", false},
	} {
		ctx := context.Background()
		if c.local != "" {
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(textAddr(c.local)))
		}
		r, err := http.NewRequestWithContext(ctx, "POST", "/cluster/remove", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = c.remote
		r.Header.Set("Content-Type", "application/json")
		if code, why := mayChange(r); (code == 0) != c.may {
			t.Errorf("from %s at %s: %d %s", c.remote, c.local, code, why)
		}
	}
}

type textAddr string

func (a textAddr) Network() string { return "tcp" }
func (a textAddr) String() string  { return string(a) }

func TestPageOfAClusterInABrowser(t *testing.T) {
	path := chromium(t)
	f := &fakeCluster{status: busyCluster()}
	url, _ := listen(t, newClusterServer(t, f))
	dom := browse(t, path, url, "--dump-dom")
	for what, pattern := range map[string]string{
		"the section":  `<section id="cluster" aria-labelledby="cluster-title">`,
		"the node":     `n1 leads · term 7 · agreed up to 1,005, applied up to 1,004`,
		"the leader":   `<tr><td>n1</td><td class="number">leader</td><td class="number">10\.0\.0\.1:7400</td><td class="number">–</td>`,
		"a follower":   `<tr><td>n2</td><td class="number">follower</td>.*?<td class="number">lately</td><td class="number">1,003</td>`,
		"a learner":    `<tr><td>n3</td><td class="number">learner</td>.*?<td class="number">not lately</td><td class="number">12</td>`,
		"that it goes": `class="state ready" role="status">ready<`,
	} {
		if !regexp.MustCompile(`(?s)` + pattern).MatchString(dom) {
			t.Errorf("the page does not show %s: no %s", what, pattern)
		}
	}
	if t.Failed() {
		t.Log(dom)
	}
}
