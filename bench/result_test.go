package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// made is a result that is made up: n intervals of 100 ms with so many attempts
// each, give or take a part of them.
func made(n int, each int64, spread float64, p50 time.Duration) *Result {
	r := &Result{Version: resultVersion, Started: time.Unix(0, 0).UTC(), Seconds: float64(n) / 10, Setup: Setup{Addr: "a:1", Connections: 3, Keys: 5, Dist: Uniform}}
	var total [kinds]*hdrhistogram.Histogram
	total[granted], total[timeout] = newHistogram(), newHistogram()
	for i := range n {
		swing := 1 + spread*float64([]int{-1, 1, 0, 1, -1, 0}[i%6])
		count := int64(float64(each) * swing)
		p := Point{From: float64(i) / 10, Seconds: 0.1, Counts: Counts{Granted: count, Timeout: 1}}
		p.P50, p.P99, p.Max = int64(float64(p50)*swing), int64(2*float64(p50)*swing), int64(3*float64(p50)*swing)
		r.Series = append(r.Series, p)
		r.Counts.Granted += count
		r.Counts.Timeout++
		_ = total[granted].RecordValues(p.P50, count)
		_ = total[timeout].RecordValue(5e9)
	}
	r.Latency = latenciesOf(total)
	return r
}

// A result is the same when it was written and read, its distributions too.
func TestResultRoundTrip(t *testing.T) {
	r := made(20, 100, 0.1, 300*time.Microsecond)
	r.ViolationCounts = map[Kind]int64{Lost: 3}
	r.Violations = []Violation{{Kind: Lost, Text: "t", Key: "k\x00\u2028", Tokens: []uint64{math.MaxUint64}, Owners: []string{"0x1"}, Times: []float64{1.5}, Connections: []int{0}}}
	r.Ends = Ends{Count: 1, Reasons: []string{"connection 0: gone"}}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	back, err := Read(&b)
	if err != nil || !reflect.DeepEqual(r, back) {
		t.Fatalf("%v\n%+v\n%+v", err, r, back)
	}
	l := back.Latency["granted"]
	h, err := l.Histogram()
	if err != nil || h.TotalCount() != r.Counts.Granted || h.ValueAtQuantile(99.9) != l.P999 || h.Max() != l.Max {
		t.Errorf("%v, %+v", err, l)
	}
	for _, bad := range []string{"", "{}", "[]", strings.Replace(text, `"version": 1`, `"version": 2`, 1), strings.Replace(text, `"hdr": "`, `"hdr": "x`, 1), strings.Replace(text, `"count": 20`, `"count": 21`, 1)} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("read: %.60s", bad)
		}
	}
}

// A latency is kept to one part in a thousand.
func TestHistogramPrecision(t *testing.T) {
	for ns := int64(1000); ns < int64(maxLatency); ns = ns*3 + 7 {
		h := newHistogram()
		if err := h.RecordValue(ns); err != nil {
			t.Fatal(err)
		}
		if got := h.ValueAtQuantile(50); math.Abs(float64(got-ns)) > max(float64(ns)/1000, 64) {
			t.Errorf("%d is kept as %d", ns, got)
		}
	}
}

func TestCompare(t *testing.T) {
	fast, slow := made(30, 1100, 0.03, 300*time.Microsecond), made(30, 1000, 0.03, 400*time.Microsecond)
	for _, c := range []struct {
		what   string
		a, b   *Result
		speed  Verdict
		median Verdict
	}{
		{"the same", fast, fast, Same, Same},
		{"a tenth more", slow, fast, Better, Better},
		{"a tenth less", fast, slow, Worse, Worse},
		{"much noise", made(30, 1000, 0.7, 400*time.Microsecond), made(30, 1100, 0.7, 300*time.Microsecond), Same, Same},
		{"less than can be told", made(30, 100000, 0, 300*time.Microsecond), made(30, 100900, 0, 300*time.Microsecond), Same, Same},
		{"just more", made(30, 100000, 0, 300*time.Microsecond), made(30, 101100, 0, 300*time.Microsecond), Better, Same},
		{"too short", made(7, 1000, 0, time.Millisecond), made(30, 2000, 0, time.Millisecond), Unknown, Unknown},
	} {
		rows := map[string]Row{}
		for _, r := range Compare(c.a, c.b).Rows {
			rows[r.Name] = r
		}
		if got := rows["attempts"]; got.Verdict != c.speed || math.Abs(got.Ratio()-got.B/got.A) > 1e-9 {
			t.Errorf("%s: attempts %+v, want %s", c.what, got, c.speed)
		}
		if got := rows["p50 of grants"]; got.Verdict != c.median {
			t.Errorf("%s: p50 %+v, want %s", c.what, got, c.median)
		}
	}
	slow.Setup.Connections, slow.ViolationCounts, slow.Ends.Count, slow.Unsent = 4, map[Kind]int64{Lost: 2}, 1, 5
	comparison := Compare(fast, slow)
	comparison.A, comparison.B = "one.json", "two.json"
	var b bytes.Buffer
	if err := comparison.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A: one.json", "B: two.json", "11,010/s", "0.909", "worse", "connections differ: 3 and 4", "B has 2 violations", "B lost 1 connections", "B did not begin 5"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	empty := &Result{Version: 1}
	if got := Compare(empty, fast).Rows; len(got) != 0 {
		t.Errorf("rows of nothing: %v", got)
	}
}

func TestTable(t *testing.T) {
	r := made(10, 1000, 0, 300*time.Microsecond)
	r.CPU = CPU{Generator: 0.01, Process: 0.03}
	r.Setup.InProcess, r.Setup.Rate, r.Setup.TLS = true, 12345, true
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a server in this process", "open loop of 12,345 attempts/s", "TLS", "attempts/s  10,010", "A granted", "10,000", "300 µs", "T timeout", "5.00 s", "generator 0.999 µs, server 1.998 µs", "verified"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	r.ViolationCounts, r.Violations = map[Kind]int64{Lost: 3}, []Violation{{Kind: Lost, Text: "gone"}}
	r.Interrupted, r.Unsent, r.Late, r.Unanswered, r.Indeterminate, r.Ends = true, 1, 2, 3, 4, Ends{1, []string{"connection 7: reset"}}
	b.Reset()
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VIOLATIONS: 3", "lost reply: gone", "and 2 more", "interrupted", "1 attempts were due and did not", "2 attempts were due and answered", "3 requests", "4 requests", "connection 7: reset"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "verified") {
		t.Error("violations and verified")
	}
	b.Reset()
	if err := (&Result{}).WriteTable(&b); err != nil || !strings.Contains(b.String(), "nothing was measured") {
		t.Errorf("%v %s", err, b.String())
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", 99.6: "100"} {
		if got := grouped(n); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
	for ns, want := range map[int64]string{0: "0.00 µs", 64: "0.06 µs", 999: "1.00 µs", 12_345: "12.3 µs", 999_000: "999 µs", 1_000_000: "1.00 ms", 25_000_000_000: "25.0 s"} {
		if got := latencyText(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
	for without, want := range map[float64]string{1: "0 %", 0.5: "50 %", 0.1: "90 %", 0.01: "99 %", 0.001: "99.9 %", 0.0001: "99.99 %", 1e-6: "99.9999 %"} {
		if got := percent(without); got != want {
			t.Errorf("%v: %s, want %s", without, got, want)
		}
	}
}

var (
	svg      = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	outside  = regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|https?://`)
	lineData = regexp.MustCompile(`data-lines="([^"]*)"`)
)

// The page is whole, loads nothing, and shows what a server chose as text.
func TestReport(t *testing.T) {
	r := made(30, 1000, 0.2, 300*time.Microsecond)
	r.ViolationCounts = map[Kind]int64{Unmatched: 1}
	r.Violations = []Violation{{Kind: Unmatched, Text: `<script>alert(1)</script>`}}
	var b bytes.Buffer
	if err := r.WriteReport(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if found := outside.FindString(page); found != "" {
		t.Errorf("the page loads something: %q", found)
	}
	if strings.Contains(page, "<script>alert") || !strings.Contains(page, "&lt;script&gt;alert") {
		t.Error("a violation's text is not escaped")
	}
	drawn := svg.FindAllString(page, -1)
	if len(drawn) != 3 {
		t.Fatalf("%d plots", len(drawn))
	}
	for _, text := range drawn {
		wellFormed(t, text)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Count(text, `class="curve`) == 0 {
			t.Errorf("plot: %s", text)
		}
	}
	for _, data := range lineData.FindAllStringSubmatch(page, -1) {
		var lines []struct{ Name string }
		text := strings.NewReplacer("&#34;", `"`, "&#43;", "+", "&amp;", "&", "&lt;", "<", "&#39;", "'").Replace(data[1])
		if err := json.Unmarshal([]byte(text), &lines); err != nil || len(lines) == 0 || lines[0].Name == "" {
			t.Errorf("%v: %.100s", err, text)
		}
	}
	// A run without a grant, one of nothing at all, and one of a single interval.
	for _, r := range []*Result{{Version: 1}, made(1, 1, 0, 70*time.Nanosecond), made(3, 0, 0, 0)} {
		b.Reset()
		if err := r.WriteReport(&b); err != nil || strings.Contains(b.String(), "NaN") {
			t.Errorf("%v", err)
		}
		for _, text := range svg.FindAllString(b.String(), -1) {
			wellFormed(t, text)
		}
	}
	if dir := os.Getenv("BENCH_REPORT_DIR"); dir != "" {
		if err := os.WriteFile(dir+"/report.html", []byte(page), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Errorf("%v: %s", err, text)
			return
		}
	}
}

// Curves stay within the plot, and gaps are gaps.
func TestPlot(t *testing.T) {
	p := &plot{title: "t", x: linear(10, secondsText), y: decades(100, 5000, roundNanos), curves: []curve{
		{"a", "kA", []point{{0, 100}, {1, 0}, {2, 5000}, {3, 200}}},
	}}
	text := string(p.SVG())
	if strings.Count(text, "M") != 2 || strings.Count(text, "h.01") != 1 {
		t.Errorf("gaps: %s", text)
	}
	for _, pt := range p.curves[0].points {
		if pt.y == 0 {
			continue
		}
		if x, y := p.at(pt); x < plotLeft || x > plotWidth-plotRight || y < plotTop || y > plotHeight-plotBottom {
			t.Errorf("%v is at %v %v", pt, x, y)
		}
	}
	for _, high := range []float64{0.0003, 1, 7, 99, 101, 12345, 1e7} {
		if a := linear(high, secondsText); len(a.ticks) < 3 || len(a.ticks) > 12 || a.ticks[len(a.ticks)-1].at > high*1.001 {
			t.Errorf("linear(%v): %d ticks", high, len(a.ticks))
		}
	}
	for _, ends := range [][2]float64{{100, 101}, {64, 900}, {1e3, 1e9}, {50, 5e10}} {
		if a := decades(ends[0], ends[1], roundNanos); len(a.ticks) < 1 || len(a.ticks) > 12 || a.place(ends[0]) < 0 || a.place(ends[1]) > 1 {
			t.Errorf("decades(%v): %d ticks", ends, len(a.ticks))
		}
	}
}
