package admin

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"ticketing/loop"
)

// scrape returns every ticketing_* sample of /metrics as name{labels} → value,
// and the type of each metric.
func scrape(t *testing.T, s *Server) (samples map[string]float64, types map[string]string) {
	t.Helper()
	code, body, _ := request(t, s, "GET", "/metrics")
	if code != 200 {
		t.Fatalf("scrape: %d %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	samples, types = map[string]float64{}, map[string]string{}
	for name, family := range families {
		types[name] = strings.ToLower(family.GetType().String())
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			sort.Strings(labels)
			id := name
			if len(labels) > 0 {
				id += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetCounter() != nil:
				samples[id] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				samples[id] = m.GetGauge().GetValue()
			case m.GetHistogram() != nil:
				h := m.GetHistogram()
				samples[id+"_count"] = float64(h.GetSampleCount())
				samples[id+"_sum"] = h.GetSampleSum()
				for _, b := range h.GetBucket() {
					samples[id+"_bucket{le="+model.SampleValue(b.GetUpperBound()).String()+"}"] = float64(b.GetCumulativeCount())
				}
			}
		}
	}
	return samples, types
}

func TestMetricsTellTheSnapshot(t *testing.T) {
	source := newFake()
	got, types := scrape(t, newServer(t, source))
	if n := source.asked.Load(); n != 1 {
		t.Errorf("one scrape took %d snapshots", n)
	}
	want := map[string]float64{
		"ticketing_build_info{commit=abc123,goversion=go1.26,version=v1.2.3}": 1,
		"ticketing_ready":       1,
		"ticketing_draining":    0,
		"ticketing_connections": 41,
		"ticketing_waiters":     14800,
		"ticketing_keys":        7,

		"ticketing_limit{resource=connections}":                 1024,
		"ticketing_in_use{resource=connections}":                41,
		"ticketing_admission_open{resource=connections}":        1,
		"ticketing_limit{resource=waiters}":                     16384,
		"ticketing_in_use{resource=waiters}":                    14800,
		"ticketing_admission_open{resource=waiters}":            0,
		"ticketing_limit{resource=keys}":                        1048576,
		"ticketing_in_use{resource=keys}":                       7,
		"ticketing_admission_open{resource=keys}":               1,
		"ticketing_limit{resource=acquires_in_flight}":          4096,
		"ticketing_in_use{resource=acquires_in_flight}":         1024,
		"ticketing_admission_open{resource=acquires_in_flight}": 1,
		"ticketing_limit{resource=releases_in_flight}":          512,
		"ticketing_in_use{resource=releases_in_flight}":         0,
		"ticketing_admission_open{resource=releases_in_flight}": 1,
		"ticketing_limit{resource=waiters_per_key}":             2048,

		"ticketing_acquires_total{result=granted}":  2000,
		"ticketing_acquires_total{result=timeout}":  400,
		"ticketing_acquires_total{result=busy}":     2 * (11 + 12 + 13 + 14 + 17),
		"ticketing_acquires_parked_total":           1400,
		"ticketing_acquires_left_total":             8,
		"ticketing_releases_total{result=released}": 1800,
		"ticketing_releases_total{result=not_held}": 60,
		"ticketing_handovers_total":                 1000,
		"ticketing_expiries_total":                  120,

		"ticketing_refusals_total{reason=queue_full}":         22,
		"ticketing_refusals_total{reason=waiters}":            24,
		"ticketing_refusals_total{reason=keys}":               26,
		"ticketing_refusals_total{reason=tokens}":             28,
		"ticketing_refusals_total{reason=acquires_in_flight}": 34,
		"ticketing_refusals_total{reason=connections}":        3,

		"ticketing_connections_accepted_total": 99,
		"ticketing_accept_errors_total":        5,
		"ticketing_panics_total":               6,
		"ticketing_admin_panics_total":         0,

		"ticketing_tls_handshakes_in_progress":                  8,
		"ticketing_tls_handshakes_total{result=full}":           70,
		"ticketing_tls_handshakes_total{result=resumed}":        71,
		"ticketing_tls_certificate_not_after_timestamp_seconds": 1e9,

		"ticketing_loop_connections{loop=0}": 20,
		"ticketing_loop_connections{loop=1}": 21,
		"ticketing_loop_keys{loop=0}":        3,
		"ticketing_loop_keys{loop=1}":        4,
		"ticketing_loop_waiters{loop=0}":     7400,
		"ticketing_loop_waiters{loop=1}":     7400,

		"ticketing_wait_seconds_count":                    2000,
		"ticketing_wait_seconds_sum":                      7,
		"ticketing_wait_seconds_bucket{le=0.000065536}":   1800, // 2^16 ns
		"ticketing_wait_seconds_bucket{le=0.000524288}":   1800, // 2^19 ns
		"ticketing_wait_seconds_bucket{le=0.001048576}":   1980, // 2^20 ns
		"ticketing_wait_seconds_bucket{le=274.877906944}": 1980, // 2^38 ns; the other 20 took longer
		"ticketing_hold_seconds_count":                    1920,
		"ticketing_hold_seconds_sum":                      1200,
		"ticketing_hold_seconds_bucket{le=0.536870912}":   0,    // 2^29 ns
		"ticketing_hold_seconds_bucket{le=1.073741824}":   1920, // 2^30 ns
	}
	for reason := range loop.EndReasons {
		want["ticketing_connections_closed_total{reason="+reason.String()+"}"] = 2 * float64(reason)
	}
	want["ticketing_connections_closed_total{reason=tls}"] += 1000 // in their handshakes
	want["ticketing_connections_closed_total{reason=plaintext}"] += 2000
	for id, value := range want {
		if v, ok := got[id]; !ok || v != value {
			t.Errorf("%s = %v (there: %v), want %v", id, v, ok, value)
		}
	}
	for id := range got {
		_, known := want[id]
		if strings.HasPrefix(id, "ticketing_") && !known && !strings.Contains(id, "_bucket{") && !strings.Contains(id, "_age_") {
			t.Errorf("%s is shown and not looked at here", id)
		}
	}
	for _, i := range []string{"0", "1"} {
		if v := got["ticketing_loop_published_age_seconds{loop="+i+"}"]; v < 1 || v > 60 {
			t.Errorf("loop %s published a second ago; its age is %v", i, v)
		}
	}
	for name, want := range map[string]string{
		"ticketing_wait_seconds": "histogram", "ticketing_acquires_total": "counter", "ticketing_in_use": "gauge",
		"go_goroutines": "gauge", "process_open_fds": "gauge",
	} {
		if types[name] != want {
			t.Errorf("%s is a %q, want %s", name, types[name], want)
		}
	}
}

func TestMetricsPassTheLinter(t *testing.T) {
	var names []string
	for _, d := range allDescs {
		names = append(names, descName(d.String()))
	}
	problems, err := testutil.GatherAndLint(newServer(t, newFake()).registry(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A server that has not published anything yet can be scraped.
func TestMetricsOfAnEmptySnapshot(t *testing.T) {
	source := newFake()
	source.snap = func(int) loop.Snapshot { return loop.Snapshot{} }
	got, _ := scrape(t, newServer(t, source))
	if v, ok := got["ticketing_acquires_total{result=granted}"]; !ok || v != 0 {
		t.Errorf("granted = %v (there: %v), want 0", v, ok)
	}
}

var descNamePattern = regexp.MustCompile(`fqName: "([^"]+)"`)

func descName(text string) string { return descNamePattern.FindStringSubmatch(text)[1] }

// The guide for operators names every metric there is, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range regexp.MustCompile("`(ticketing_[a-z_]+)").FindAllStringSubmatch(string(guide), -1) {
		documented[name[1]] = true
	}
	for _, d := range allDescs {
		name := descName(d.String())
		if !documented[name] {
			t.Errorf("%s is not in docs/operations.md", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/operations.md names %s, which does not exist", name)
	}
}
