package admin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"ticketing/loop"
	"ticketing/shard"
)

func readStatus(t *testing.T, s *Server, path string) (Status, string) {
	t.Helper()
	code, body, _ := request(t, s, "GET", path)
	if code != 200 {
		t.Fatalf("%s: %d", path, code)
	}
	var status Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	return status, body
}

func TestStatusTellsTheSnapshot(t *testing.T) {
	s := newServer(t, newFake())
	status, body := readStatus(t, s, "/status")
	if status.Version != "v1.2.3" || status.Commit != "abc123" || status.GoVersion != "go1.26" {
		t.Errorf("build: %+v", status)
	}
	if status.UptimeSeconds < 90*60 || status.UptimeSeconds > 91*60 {
		t.Errorf("uptime of 90 min is %v s", status.UptimeSeconds)
	}
	if !status.Ready || status.Draining {
		t.Errorf("ready %v, draining %v", status.Ready, status.Draining)
	}
	wantGauges := append(busySnapshot(0).Gauges, loop.Gauge{Name: "waiters_per_key", Used: 2000, Limit: 2048, Open: true})
	if !slices.Equal(status.Gauges, wantGauges) {
		t.Errorf("gauges: %+v, want %+v", status.Gauges, wantGauges)
	}
	total := status.Totals
	got := []uint64{
		total.Granted, total.Timeout, total.Busy, total.Parked, total.Left, total.Released, total.NotHeld,
		total.Handovers, total.Expiries, total.Accepted, total.AcceptErrors,
		total.Refusals["queue_full"], total.Refusals["connections"], total.Closed["slow_reader"],
	}
	want := []uint64{2000, 400, 134, 1400, 8, 1800, 60, 1000, 120, 99, 5, 22, 3, 2 * uint64(loop.EndSlowReader)}
	if !slices.Equal(got, want) {
		t.Errorf("totals: %v, want %v", got, want)
	}
	if len(status.Loops) != 2 || status.Loops[1].Connections != 21 || status.Loops[1].Keys != 4 || status.Loops[1].Waiters != 7400 {
		t.Errorf("loops: %+v", status.Loops)
	}
	var keys []string
	for _, q := range status.Queues {
		keys = append(keys, q.Key)
		for _, r := range q.Label {
			if !unicode.IsPrint(r) {
				t.Errorf("label %q has %U", q.Label, r)
			}
		}
	}
	if !slices.Equal(keys, nastyKeys) {
		t.Errorf("queues, longest first: %q, want %q", keys, nastyKeys)
	}
	if strings.Contains(body, "<script>") {
		t.Error("a key's markup stands in the answer as it is")
	}
}

func TestStatusLimitsQueues(t *testing.T) {
	s := newServer(t, newFake())
	for path, want := range map[string]int{"/status?queues=0": 0, "/status?queues=1": 1, "/status?queues=3": 3, "/status?queues=100": 4} {
		status, body := readStatus(t, s, path)
		if len(status.Queues) != want {
			t.Errorf("%s: %d queues, want %d", path, len(status.Queues), want)
		}
		if !strings.Contains(body, `"queues": [`) {
			t.Errorf("%s: queues is no list", path)
		}
	}
}

// The longest queue's row closes at its limit, not below it.
func TestStatusWaitersPerKeyCloses(t *testing.T) {
	for used, open := range map[int]bool{0: true, 2047: true, 2048: false} {
		source := newFake()
		source.snap = func(int) loop.Snapshot {
			return loop.Snapshot{MaxWaiters: 2048, Loops: []loop.LoopSnapshot{
				{Queues: []shard.Queue{{Key: "k", Waiters: used}}},
			}}
		}
		status, _ := readStatus(t, newServer(t, source), "/status")
		if g := status.Gauges[0]; g.Name != "waiters_per_key" || g.Used != used || g.Open != open {
			t.Errorf("longest queue %d: %+v, want open %v", used, g, open)
		}
	}
}

func TestKeyLabel(t *testing.T) {
	for key, want := range map[string]string{
		"orders/42":        "orders/42",
		"naïve-鍵":          "naïve-鍵",
		"a\x00b\x1b[0m":    `a\x00b\x1b[0m`,
		"tab\tcr\r":        `tab\tcr\r`,
		"\u202eevil\u2066": `\u202eevil\u2066`,
		"nb\u00a0sp":       `nb\u00a0sp`,
		`say"hi"`:          `say"hi"`,
		`back\slash`:       `back\\slash`,
		"<b>&amp;":         "<b>&amp;",
	} {
		if got := keyLabel(key); got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
	}
}
