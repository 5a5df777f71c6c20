package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Comparison is two results side by side.
type Comparison struct {
	A, B     string // what the results are called
	Rows     []Row
	Warnings []string // why the two may not be comparable
}

// Row is one number of both results.
type Row struct {
	Name string
	A, B float64
	Unit string // "/s" or "ns"
	// Noise is how far B/A may be from 1 by chance, judged by how much the
	// intervals of each run differ among themselves; NaN: not known.
	Noise   float64
	Verdict Verdict
}

// Ratio is B/A.
func (r *Row) Ratio() float64 { return r.B / r.A }

// Verdict is what B is, compared with A.
type Verdict string

const (
	Same    Verdict = "the same within noise"
	Better  Verdict = "better"
	Worse   Verdict = "worse"
	Unknown Verdict = "too few intervals to judge"
)

// minIntervals is how many intervals each run must have to be judged, and
// leastNoise the smallest difference that is taken for one: below it stands what
// no statistics of a single run show, such as the place of code in memory.
const (
	minIntervals = 8
	leastNoise   = 0.01
)

// sigmas is how many standard errors a difference must have.
const sigmas = 3

// Compare puts two results side by side.
func Compare(a, b *Result) *Comparison {
	c := &Comparison{A: "A", B: "B"}
	c.add("attempts", "/s", a, b, true,
		func(r *Result) float64 { return float64(r.Counts.Attempts()) / r.Seconds },
		func(p *Point) float64 { return float64(p.Counts.Attempts()) / p.Seconds })
	c.add("grants", "/s", a, b, true,
		func(r *Result) float64 { return float64(r.Counts.Granted) / r.Seconds },
		func(p *Point) float64 { return float64(p.Counts.Granted) / p.Seconds })
	for _, q := range []struct {
		name  string
		total func(*Latency) int64
		point func(*Point) int64
	}{
		{"p50 of grants", func(l *Latency) int64 { return l.P50 }, func(p *Point) int64 { return p.P50 }},
		{"p99 of grants", func(l *Latency) int64 { return l.P99 }, func(p *Point) int64 { return p.P99 }},
		{"p99.9 of grants", func(l *Latency) int64 { return l.P999 }, func(p *Point) int64 { return p.Max }},
		{"max of grants", func(l *Latency) int64 { return l.Max }, func(p *Point) int64 { return p.Max }},
	} {
		c.add(q.name, "ns", a, b, false,
			func(r *Result) float64 { l := r.Latency[kindNames[granted]]; return float64(q.total(&l)) },
			func(p *Point) float64 { return float64(q.point(p)) })
	}
	c.warn(a, b)
	return c
}

// add makes a row; it leaves out what a run does not have.
func (c *Comparison) add(name, unit string, a, b *Result, more bool, total func(*Result) float64, point func(*Point) float64) {
	row := Row{Name: name, Unit: unit, A: total(a), B: total(b)}
	if !(row.A > 0 && row.B > 0) {
		return
	}
	row.Noise = noise(series(a, point), series(b, point))
	diff := math.Log(row.Ratio())
	if !more {
		diff = -diff
	}
	switch {
	case math.IsNaN(row.Noise):
		row.Verdict = Unknown
	case math.Abs(diff) <= row.Noise:
		row.Verdict = Same
	case diff > 0:
		row.Verdict = Better
	default:
		row.Verdict = Worse
	}
	c.Rows = append(c.Rows, row)
}

// series is one number of every whole interval that has it.
func series(r *Result, point func(*Point) float64) (values []float64) {
	longest := 0.0
	for i := range r.Series {
		longest = max(longest, r.Series[i].Seconds)
	}
	for i := range r.Series {
		if p := &r.Series[i]; p.Seconds > longest/2 && point(p) > 0 {
			values = append(values, point(p))
		}
	}
	return values
}

// noise is how far the ratio of two means may be from 1 by chance.
func noise(a, b []float64) float64 {
	if len(a) < minIntervals || len(b) < minIntervals {
		return math.NaN()
	}
	return max(sigmas*math.Hypot(relativeError(a), relativeError(b)), leastNoise)
}

// relativeError is the standard error of a mean, in parts of it. Neighbours that
// resemble each other count for less than as many independent values.
func relativeError(values []float64) float64 {
	n, mean := float64(len(values)), 0.0
	for _, v := range values {
		mean += v / n
	}
	variance, covariance := 0.0, 0.0
	for i, v := range values {
		variance += (v - mean) * (v - mean)
		if i > 0 {
			covariance += (v - mean) * (values[i-1] - mean)
		}
	}
	if variance == 0 {
		return 0
	}
	alike := min(max(covariance/variance, 0), 0.9)
	return math.Sqrt(variance/(n-1)/n*(1+alike)/(1-alike)) / mean
}

// warn tells what differs between the two beside the server.
func (c *Comparison) warn(a, b *Result) {
	s, t := a.Setup, b.Setup
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"connections", s.Connections, t.Connections}, {"pipeline", s.Pipeline, t.Pipeline}, {"threads", s.Threads, t.Threads},
		{"keys", s.Keys, t.Keys}, {"key size", s.KeySize, t.KeySize}, {"dist", s.Dist, t.Dist},
		{"wait", s.Wait, t.Wait}, {"lease", s.Lease, t.Lease}, {"hold", s.Hold, t.Hold}, {"rate", s.Rate, t.Rate},
		{"TLS", s.TLS, t.TLS}, {"a server in the process", s.InProcess, t.InProcess},
		{"host", a.Host.Name, b.Host.Name}, {"CPUs", a.Host.CPUs, b.Host.CPUs},
	} {
		if f.a != f.b {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s differ: %v and %v", f.name, f.a, f.b))
		}
	}
	for _, r := range []struct {
		name   string
		result *Result
	}{{"A", a}, {"B", b}} {
		if n := r.result.Violated(); n > 0 {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s has %d violations", r.name, n))
		}
		if r.result.Ends.Count > 0 {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s lost %d connections", r.name, r.result.Ends.Count))
		}
		if r.result.Unsent > 0 {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s did not begin %d attempts that were due", r.name, r.result.Unsent))
		}
	}
}

// WriteTable writes the comparison for people.
func (c *Comparison) WriteTable(to io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "A: %s\nB: %s\n\n", c.A, c.B)
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tA\tB\tB/A\tnoise\tB is\t")
	for i := range c.Rows {
		r := &c.Rows[i]
		show := func(v float64) string { return grouped(v) + r.Unit }
		if r.Unit == "ns" {
			show = func(v float64) string { return latencyText(int64(v)) }
		}
		noise := "?"
		if !math.IsNaN(r.Noise) {
			noise = fmt.Sprintf("±%.1f %%", 100*r.Noise)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3f\t%s\t%s\t\n", r.Name, show(r.A), show(r.B), r.Ratio(), noise, r.Verdict)
	}
	t.Flush()
	if len(c.Warnings) > 0 {
		fmt.Fprintf(&b, "\nmind:\n  %s\n", strings.Join(c.Warnings, "\n  "))
	}
	_, err := to.Write(b.Bytes())
	return err
}
