package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAdminEndpoints asks every page of the admin endpoint.
func TestAdminEndpoints(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for path, part := range map[string]string{
			"/healthz":                       "",
			"/readyz":                        "",
			"/metrics":                       "# TYPE ticketing_acquires_total counter",
			"/status":                        `"version"`,
			"/":                              "<html",
			"/debug/pprof/":                  "goroutine",
			"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
			"/debug/pprof/heap?debug=1":      "heap profile",
			"/debug/pprof/cmdline":           "ticketing", // and no argument: a flag may hold the secret
			"/debug/pprof/symbol":            "num_symbols",
		} {
			status, body := s.get(t, path)
			if status != 200 || !strings.Contains(body, part) {
				t.Errorf("%s: %d: %.200q", path, status, body)
			}
		}
		if status, _ := s.get(t, "/nothing"); status != 404 {
			t.Errorf("/nothing: %d", status)
		}
		if resp, err := scraper.Post("http://"+s.admin+"/status", "text/plain", strings.NewReader("x")); err != nil {
			t.Error(err)
		} else if resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST /status: %d", resp.StatusCode)
		}
	})
}

// TestMetricNames: every name the manual promises is there on a fresh server.
func TestMetricNames(t *testing.T) {
	s := start(t)
	m := s.metrics(t)
	for _, name := range []string{
		`ticketing_acquires_total{result="granted"}`, `ticketing_acquires_total{result="timeout"}`,
		`ticketing_acquires_total{result="busy"}`,
		`ticketing_releases_total{result="released"}`, `ticketing_releases_total{result="not_held"}`,
		"ticketing_handovers_total", "ticketing_expiries_total",
		"ticketing_connections", "ticketing_waiters", "ticketing_keys",
		"ticketing_wait_seconds_count", "ticketing_wait_seconds_sum", `ticketing_wait_seconds_bucket{le="+Inf"}`,
		"ticketing_hold_seconds_count", "ticketing_hold_seconds_sum", `ticketing_hold_seconds_bucket{le="+Inf"}`,
	} {
		if v, ok := m[name]; !ok || v != 0 {
			t.Errorf("%s is %v on a fresh server", name, v)
		}
	}
	if m.sum("ticketing_build_info") != 1 {
		t.Error("ticketing_build_info is not 1")
	}
	if m.sum("ticketing_refusals_total") != 0 {
		t.Error("ticketing_refusals_total is not 0")
	}
}

// TestStatus: the JSON has every gauge of §7 with its limit and whether its
// admission is open, and the longest queues.
func TestStatus(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for i := range 10 {
			p.lock(fmt.Sprint("k", i), 250)
			for range i {
				p.queue(250, 250, fmt.Sprint("k", i))
			}
		}
		var st struct {
			Version string
			Uptime  float64 `json:"uptime_seconds"`
			Ready   bool
			Loops   []any
			Gauges  []struct {
				Name        string
				Used, Limit int
				Open        bool
			}
			Queues []struct {
				Key     string
				Waiters int
			}
		}
		_, body := s.get(t, "/status")
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if st.Version == "" || st.Uptime <= 0 || !st.Ready || len(st.Loops) != s.loops {
			t.Errorf("status: %+v", st)
		}
		want := map[string][3]int{ // used, limit, open
			"connections": {1, 1024, 1}, "waiters": {45, 50, 0}, "keys": {10, 11, 0},
			"acquires_in_flight": {0, 4096, 1}, "releases_in_flight": {0, 512, 1},
		}
		for _, g := range st.Gauges {
			w, ok := want[g.Name]
			if ok && (g.Used != w[0] || g.Limit != w[1] || g.Open != (w[2] == 1)) {
				t.Errorf("gauge %+v, want %v", g, w)
			}
			delete(want, g.Name)
		}
		if len(want) > 0 {
			t.Errorf("gauges are missing: %v", want)
		}
		for i, q := range st.Queues {
			if q.Key != fmt.Sprint("k", 9-i) || q.Waiters != 9-i {
				t.Errorf("queue %d is %+v", i, q)
			}
		}
		if len(st.Queues) < 5 {
			t.Errorf("the longest queues: %+v", st.Queues)
		}
	}, "MAX_TOTAL_WAITERS=50", "MAX_KEYS=11")
}

// TestAdminOff: an empty ADMIN_ADDR turns the endpoint off.
func TestAdminOff(t *testing.T) {
	s := start(t, "ADMIN_ADDR=")
	s.dial(t).quiet()
	if s.admin != "" {
		t.Errorf("an admin address was printed: %s", s.admin)
	}
}

// TestProfilesDoNotBlock: a profile and a trace are taken while clients are
// served as always.
func TestProfilesDoNotBlock(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		stop := s.keepServing(t, 4)
		together(t, 3, func(i int) error {
			path := []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1", "/debug/pprof/goroutine?debug=2"}[i]
			status, body, err := s.tryGet(path)
			if err != nil || status != 200 || len(body) < 100 {
				return fmt.Errorf("%s: %d, %d bytes, %v", path, status, len(body), err)
			}
			return nil
		})
		stop()
	})
}
