package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scraper does not keep connections: those would count among the server's
// file descriptors.
var scraper = &http.Client{
	Timeout:   patience,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// get asks the admin endpoint.
func (s *server) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	status, body, err := s.tryGet(path)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func (s *server) tryGet(path string) (status int, body string, err error) {
	resp, err := scraper.Get("http://" + s.admin + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// samples is one scrape: value by name and labels, as Prometheus writes them.
type samples map[string]float64

// metrics scrapes the server until what its loops tell is not older than the
// question: a loop that is busy is not waited for long.
func (s *server) metrics(t testing.TB) samples {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		begin := time.Now()
		m := s.scrape(t)
		oldest := 0.0
		for k, age := range m {
			if strings.HasPrefix(k, "ticketing_loop_published_age_seconds") {
				oldest = max(oldest, age)
			}
		}
		if oldest <= time.Since(begin).Seconds() {
			return m
		}
		if time.Now().After(end) {
			t.Fatalf("a loop has told nothing for %v s", oldest)
		}
	}
}

func (s *server) scrape(t testing.TB) samples {
	t.Helper()
	status, body := s.get(t, "/metrics")
	if status != 200 {
		t.Fatalf("/metrics: %d", status)
	}
	m := samples{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' || at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("/metrics: %q: %v", line, err)
		}
		m[line[:at]] = v
	}
	return m
}

// sum adds up a metric over all its labels.
func (m samples) sum(name string) (v float64) {
	for k, x := range m {
		if k == name || strings.HasPrefix(k, name+"{") {
			v += x
		}
	}
	return v
}

// awaitMetrics polls until the metrics are exactly these, and looks again a
// little later that they did not run on.
func (s *server) awaitMetrics(t testing.TB, want samples) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		wrong := s.metrics(t).wrong(want)
		if wrong == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("metrics:%s", wrong)
		}
	}
	time.Sleep(250 * time.Millisecond) // nothing announces that a counter stays
	if wrong := s.metrics(t).wrong(want); wrong != "" {
		t.Fatalf("metrics ran on:%s", wrong)
	}
}

func (m samples) wrong(want samples) (all string) {
	for k, v := range want {
		if got := m[k]; got != v {
			all += "\n\t" + k + " is " + strconv.FormatFloat(got, 'g', -1, 64) +
				", want " + strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return all
}
