package bench

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the result for people.
func (r *Result) WriteTable(to io.Writer) error {
	var b bytes.Buffer
	s := &r.Setup
	fmt.Fprintf(&b, "%s\n\n", s.describe())
	seconds := r.Seconds
	if seconds <= 0 {
		b.WriteString("nothing was measured: the run ended before\n")
	} else {
		fmt.Fprintf(&b, "attempts/s  %s      requests/s  %s      in %.2f s\n\n",
			grouped(float64(r.Counts.Attempts())/seconds), grouped(float64(r.Counts.Replies())/seconds), seconds)
		r.writeLatencies(&b)
		fmt.Fprintf(&b, "\n%s\n", r.cpuText())
	}
	r.writeRemarks(&b)
	r.writeVerdict(&b)
	_, err := to.Write(b.Bytes())
	return err
}

// describe is the set-up in one line.
func (s *Setup) describe() string {
	var b strings.Builder
	server := s.Addr
	if s.InProcess {
		server = "a server in this process"
	}
	fmt.Fprintf(&b, "%s: %d connections × %d attempts, ", server, s.Connections, s.Pipeline)
	if s.Dist == Single {
		b.WriteString("one key")
	} else {
		fmt.Fprintf(&b, "%d keys %s", s.Keys, s.Dist)
	}
	fmt.Fprintf(&b, " of %d bytes, wait %gs, lease %gs, hold %v, ", s.KeySize, s.Wait, s.Lease, inSeconds(s.Hold))
	if s.Rate > 0 {
		fmt.Fprintf(&b, "open loop of %s attempts/s", grouped(s.Rate))
	} else {
		b.WriteString("closed loop")
	}
	if s.TLS {
		b.WriteString(", TLS")
	}
	return b.String()
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (r *Result) writeLatencies(b *bytes.Buffer) {
	t := tabwriter.NewWriter(b, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "reply\tcount\tper second\tp50\tp90\tp99\tp99.9\tmax\t")
	for kind, count := range r.Counts.list() {
		l := r.Latency[kindNames[kind]]
		row := []string{kindOps[kind] + " " + strings.ReplaceAll(kindNames[kind], "_", " "), grouped(float64(count)), grouped(float64(count) / r.Seconds)}
		for _, ns := range []int64{l.P50, l.P90, l.P99, l.P999, l.Max} {
			if l.Count == 0 {
				row = append(row, "")
			} else {
				row = append(row, latencyText(ns))
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	t.Flush()
}

// cpuText is what a request costs; empty when there were none.
func (r *Result) cpuText() string {
	requests := float64(r.Counts.Replies())
	if requests == 0 {
		return ""
	}
	text := fmt.Sprintf("CPU per request: generator %.3f µs", r.CPU.Generator/requests*1e6)
	if r.Setup.InProcess {
		text += fmt.Sprintf(", server %.3f µs", max(r.CPU.Process-r.CPU.Generator, 0)/requests*1e6)
	}
	return text
}

func (r *Result) writeRemarks(b *bytes.Buffer) {
	remark := func(n int64, format string) {
		if n > 0 {
			fmt.Fprintf(b, format+"\n", grouped(float64(n)))
		}
	}
	b.WriteString("\n")
	if r.Interrupted {
		b.WriteString("interrupted: this is what was measured until then\n")
	}
	remark(r.Unsent, "%s attempts were due and did not begin: all places were taken; the rate is more than what was there for it")
	remark(r.Late, "%s attempts were due and answered only after the end; their latencies are counted")
	remark(r.Unanswered, "%s requests were not answered when the run ended, and not due")
	remark(r.Indeterminate, "%s requests were not answered because their connection ended")
	if r.Ends.Count > 0 {
		fmt.Fprintf(b, "%d connections ended before the run did:\n", r.Ends.Count)
		for _, reason := range r.Ends.Reasons {
			fmt.Fprintf(b, "  %s\n", reason)
		}
	}
}

func (r *Result) writeVerdict(b *bytes.Buffer) {
	n := r.Violated()
	if n == 0 {
		b.WriteString("verified: one holder a key, rising tokens, every reply matched, no reply lost\n")
		return
	}
	fmt.Fprintf(b, "VIOLATIONS: %s\n", grouped(float64(n)))
	for _, v := range r.Violations {
		fmt.Fprintf(b, "  %s\n", v)
	}
	if more := n - int64(len(r.Violations)); more > 0 {
		fmt.Fprintf(b, "  and %s more\n", grouped(float64(more)))
	}
}

// grouped writes a number without its fraction, in groups of three digits.
func grouped(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// latencyText writes a latency with three digits.
func latencyText(ns int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if v := float64(ns) / unit.size; v >= 1 || unit.size == 1e3 {
			switch {
			case v >= 100:
				return fmt.Sprintf("%.0f %s", v, unit.name)
			case v >= 10:
				return fmt.Sprintf("%.1f %s", v, unit.name)
			}
			return fmt.Sprintf("%.2f %s", v, unit.name)
		}
	}
	return ""
}
