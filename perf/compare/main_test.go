package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing/perf/compare/floor"
)

// scratch is removed when all tests are done.
var scratch string

// The test binary is the floor when it is asked to be, as compare is.
func TestMain(m *testing.M) {
	if os.Getenv(floorVariable) != "" {
		fmt.Fprintln(os.Stderr, floor.Serve())
		os.Exit(1)
	}
	var err error
	if scratch, err = os.MkdirTemp("", "compare-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// server builds the server, once.
var server = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(scratch, "ticketing")
	build := exec.Command("go", "build", "-o", binary, "./cmd/ticketing")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the server: %v\n%s", err, out)
	}
	return binary, nil
})

// shortOptions measure next to nothing, against a server that is built for it.
func shortOptions(t *testing.T) *options {
	t.Helper()
	runtime.LockOSThread() // the servers end with this thread at the latest
	t.Cleanup(runtime.UnlockOSThread)
	binary, err := server()
	if err != nil {
		t.Fatal(err)
	}
	o := newOptions(binary, true)
	o.settle, o.slice, o.rounds = time.Millisecond, 5*time.Millisecond, 2
	o.say = t.Logf
	return o
}

// Every server that is there answers what its driver asks, every reply is judged,
// and what comes of it is whole.
func TestCompare(t *testing.T) {
	o := shortOptions(t)
	subjects, missing := installed(pairSubjects())
	t.Logf("not installed: %v", missing)
	r := &result{Machine: thisMachine(), Versions: versions(o)}
	var err error
	if r.Pairs, err = measurePairs(o, subjects, []shape{{16, 16}}); err != nil {
		t.Fatal(err)
	}
	if len(missing) == 0 {
		if r.HandOvers, err = measureHandOvers(o); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range r.Pairs {
		if len(p.Figures) != len(subjects) {
			t.Errorf("%v: %d of %d servers", p.Shape, len(p.Figures), len(subjects))
		}
		for _, f := range p.Figures {
			if f.CPU.Median <= 0 || f.Rate.Median <= 0 || f.P99 < f.P50 {
				t.Errorf("%v: %s: %+v", p.Shape, f.Title, f)
			}
		}
	}
	if r.Cluster, err = measureCluster(o); err != nil {
		t.Fatal(err)
	}
	checkCluster(t, r.Cluster, len(missing) == 0)
	for _, h := range r.HandOvers {
		for _, f := range h.Figures {
			if f.CPU.Median <= 0 || f.P50 <= 0 {
				t.Errorf("%s: %s: %+v", h.Title, f.Title, f)
			}
		}
	}
	checkWritten(t, r)
}

// checkCluster looks for all that the page and the targets need.
func checkCluster(t *testing.T, s *clusterSection, withEtcd bool) {
	t.Helper()
	rows := len(clusterShapes)
	if withEtcd {
		rows++
		if s.ByEtcd.Median <= 0 {
			t.Error("the cluster is not compared with etcd")
		}
	}
	if len(s.Rows) != rows || s.Fdatasync <= 0 {
		t.Errorf("%d rows, want %d; fdatasync %v µs", len(s.Rows), rows, s.Fdatasync)
	}
	for _, r := range s.Rows {
		f := r.Figures
		if f.CPU.Median <= 0 || f.Rate.Median <= 0 || f.P50 <= 0 {
			t.Errorf("%v: %s: %+v", r.Shape, f.Title, f)
		}
		if f.ID == clusterID && (r.Follower.Median <= 0 || r.Fsync <= 0 || r.Behind <= 0 || r.Entry <= 0) {
			t.Errorf("%v: %s: %+v", r.Shape, f.Title, r)
		}
	}
	for _, target := range clusterTargets(s) {
		if math.IsNaN(target.have) && withEtcd {
			t.Errorf("not measured: %s", target.what)
		}
	}
}

// checkWritten writes r into a copy of the page.
func checkWritten(t *testing.T, r *result) {
	t.Helper()
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := t.TempDir()
	if err := os.WriteFile(filepath.Join(docs, "performance.md"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.write(docs); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range tablesOf(r) {
		if !strings.Contains(string(written), table) {
			t.Errorf("the page lacks the table %s:\n%s", name, table)
		}
	}
	for name := range plotsOf(r) {
		if !strings.Contains(string(written), "performance/"+name) {
			t.Errorf("the page does not show %s", name)
		}
		svg, err := os.ReadFile(filepath.Join(docs, "performance", name))
		if err != nil || !strings.HasSuffix(string(svg), "</svg>\n") || strings.Contains(string(svg), "NaN") {
			t.Errorf("%s: %v\n%.400s", name, err, svg)
		}
	}
}

// A server that is not there is not measured as one that takes no time.
func TestServerThatEnds(t *testing.T) {
	o := shortOptions(t)
	s := ticketing(1, "MAX_KEYS=none")
	if _, err := s.start(o); err == nil || !strings.Contains(err.Error(), "MAX_KEYS") {
		t.Errorf("starting with a wrong setting: %v", err)
	}
	p, err := ticketing(1).start(o)
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGenerator(p, newTicketingProtocol(), workload{connections: 2, depth: 2, lease: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if _, err := g.run(0, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.run(0, time.Millisecond); err == nil {
		t.Error("a turn of a server that has ended succeeds")
	}
	if err := p.stop(); err == nil {
		t.Error("a server that ended by itself ends well")
	}
}

// What a driver did not ask for ends the measurement.
func TestParsersObject(t *testing.T) {
	granted := "A\x00\x00\x00\x00\x00\x00\x00\x01"
	for name, c := range map[string]struct {
		proto   protocol
		good    func(s *slot) string
		garbled []string
	}{
		"ticketing": {newTicketingProtocol(),
			func(s *slot) string {
				return granted + string(binary.BigEndian.AppendUint64(nil, s.owner)) + string(s.key[:]) + "\n"
			},
			[]string{"T\x00", "Ebad_key\n", granted + "\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("k", keySize) + "\n"}},
		"redis":     {newSetDel(), func(*slot) string { return "+OK\r\n" }, []string{"$-1\r\n", ":1\r\n", "+OK\r\n:0\r\n"}},
		"memcached": {newMemcached(), func(*slot) string { return "STORED\r\n" }, []string{"NOT_STORED\r\n", "STORED\r\nNOT_FOUND\r\n"}},
	} {
		for i, reply := range append([]string{""}, c.garbled...) {
			g := &generator{workload: workload{connections: 1, depth: 1, lease: 30}, proto: c.proto}
			conn := newConn(g, 0, -1)
			s := &conn.slots[0]
			conn.acquire(s)
			if i == 0 {
				reply = c.good(s)
			}
			_, err := c.proto.parse(conn, []byte(reply))
			if i == 0 && (err != nil || s.state != release) || i > 0 && err == nil {
				t.Errorf("%s: %q: error %v, state %d", name, reply, err, s.state)
			}
		}
	}
}

// Two who hold a contended key at the same time are noticed.
func TestTwoHolders(t *testing.T) {
	g := &generator{workload: workload{connections: 1, depth: 2, lease: 30, wait: 1, contended: 1}, proto: newTicketingProtocol(),
		holder: []int32{-1}, last: []int32{-1}, grants: make([]int64, 1)}
	c := newConn(g, 0, -1)
	c.acquire(&c.slots[0])
	c.acquire(&c.slots[1])
	if err := c.granted(&c.slots[0]); err != nil {
		t.Fatal(err)
	}
	if err := c.granted(&c.slots[1]); err == nil {
		t.Error("a second holder is not noticed")
	}
}

// Quantiles are at most 1.6 % above what they are.
func TestQuantiles(t *testing.T) {
	var h histogram
	for i := range 10_000 {
		h.add(int64(i+1) * 100)
	}
	for q, want := range map[float64]float64{.5: 500, .99: 990, .999: 999} {
		if have := h.quantile(q); have < want || have > want*1.017 {
			t.Errorf("quantile %v: %v µs, want %v", q, have, want)
		}
	}
	if h.quantile(1) != 1000 || h.max != 1_000_000 {
		t.Errorf("the longest: %v µs, %d ns", h.quantile(1), h.max)
	}
}

// A median of a histogram's buckets counts only what came since.
func TestFsyncSince(t *testing.T) {
	then := counts{fsyncs: []bucket{{.001, 100}, {.002, 100}, {math.Inf(1), 100}}}
	now := counts{fsyncs: []bucket{{.001, 100}, {.002, 104}, {math.Inf(1), 104}}}
	if have := now.fsyncSince(&then); math.Abs(have-1500) > 1e-6 {
		t.Errorf("%v µs, want 1500", have)
	}
	if have := then.fsyncSince(&then); have != 0 {
		t.Errorf("%v µs of none", have)
	}
}

// A verdict says by how much.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		t    target
		want string
	}{
		{target{what: "x", bound: .4, have: .4}, "met: 0.40 of 0.40"},
		{target{what: "x", bound: .4, have: .5}, "missed by 25 %: 0.50 of 0.40"},
		{target{what: "x", bound: 0, have: 3, unit: "µs"}, "missed: 3 µs"},
		{target{what: "x", bound: 1, have: of(nil, "nobody", nil)}, "not measured"},
		{target{what: "x", bound: 1000, have: 1000, unit: "/s", least: true}, "met: 1,000/s of 1,000/s"},
		{target{what: "x", bound: 1000, have: 900, unit: "/s", least: true}, "missed by 10 %: 900/s of 1,000/s"},
	} {
		if have := c.t.verdict(); have != c.want {
			t.Errorf("%+v: %q, want %q", c.t, have, c.want)
		}
	}
}
