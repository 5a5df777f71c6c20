package main

import (
	"fmt"
	"strings"
)

// tablesOf makes the tables of docs/performance.md, by the name of their place.
func tablesOf(r *result) map[string]string {
	tables := map[string]string{
		"machine":   machineText(r),
		"targets":   targetTable(r),
		"lateness":  latenessTable(r),
		"memory":    memoryTable(r),
		"held":      growthTable(r.Held),
		"connected": growthTable(r.Connected),
		"bench":     benchTable(r),
	}
	for i, p := range r.Pairs {
		tables[fmt.Sprintf("pairs-%dx%d", p.Shape.Connections, p.Shape.Depth)] = figuresTable(r.Pairs[i].Figures, "pair", "Redis")
	}
	for i, name := range []string{"hand-overs-one", "hand-overs-many"} {
		if i < len(r.HandOvers) {
			tables[name] = figuresTable(r.HandOvers[i].Figures, "hand-over", "BLPOP")
		}
	}
	if r.Cluster != nil {
		tables["cluster"] = clusterText(r.Cluster)
	}
	if r.Sweep != nil {
		tables["sweep"] = sweepTable(r.Sweep)
	}
	return tables
}

func table(b *strings.Builder, cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(b, "| %v ", c)
	}
	b.WriteString("|\n")
}

func header(b *strings.Builder, names ...any) {
	table(b, names...)
	b.WriteString("|---" + strings.Repeat("|---:", len(names)-1) + "|\n")
}

func machineText(r *result) string {
	return fmt.Sprintf("%s. %s, %d CPUs, %s, %s. %s.\n", r.Started, r.Machine.CPU, r.Machine.CPUs, r.Machine.Kernel, r.Machine.Go,
		strings.Join(r.Versions, "; "))
}

func targetTable(r *result) string {
	var b strings.Builder
	b.WriteString("| target | bound | measured | |\n|---|---:|---:|---|\n")
	for _, t := range targetsOf(r) {
		verdict, _, _ := strings.Cut(t.verdict(), ":")
		sign := "≤ "
		if t.least {
			sign = "≥ "
		}
		table(&b, t.what, sign+t.text(t.bound), t.text(t.have), verdict)
	}
	return b.String()
}

func figuresTable(all []figures, what, base string) string {
	var b strings.Builder
	pairs := what == "pair"
	last := "generator, µs"
	if !pairs {
		last = "most by fewest"
	}
	header(&b, "server", "CPU of a "+what+", µs", "by "+base, what+"s/s", "p50, µs", "p99, µs", "p99.9, µs", last)
	for _, f := range all {
		end := fmt.Sprintf("%.2f", f.Generator.Median)
		if !pairs {
			end = fmt.Sprintf("%.3f", f.Fairness)
		}
		table(&b, f.Title, spreadText(f.CPU), spreadText(f.Ratio), thousands(f.Rate.Median),
			brief(f.P50), brief(f.P99), brief(f.P999), end)
	}
	return b.String()
}

// spreadText is the median with least and greatest.
func spreadText(s spread) string {
	if s.Median == 0 {
		return ""
	}
	return fmt.Sprintf("**%s** [%s %s]", brief(s.Median), brief(s.Min), brief(s.Max))
}

// brief has about three digits that say something.
func brief(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return thousands(v)
}

func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func latenessTable(r *result) string {
	var b strings.Builder
	header(&b, "server", "what", "ends", "least, µs", "p50, µs", "p99, µs", "most, µs")
	for _, l := range r.Lateness {
		table(&b, l.Title, l.What, l.Count, brief(l.Min), brief(l.P50), brief(l.P99), brief(l.Max))
	}
	return b.String()
}

func memoryTable(r *result) string {
	var b strings.Builder
	header(&b, "server", "thing", "how many", "bytes each")
	for _, m := range r.Memory {
		table(&b, m.Title, m.Thing, thousands(float64(m.Count)), thousands(m.Bytes))
	}
	return b.String()
}

func growthTable(all []growth) string {
	var b strings.Builder
	header(&b, "server", "beside", "CPU of a pair, µs", "by the first")
	for _, g := range all {
		for i, f := range g.Figures {
			_, what, _ := strings.Cut(f.Title, " ")
			table(&b, g.Title, thousands(float64(g.Levels[i]))+" "+what, spreadText(f.CPU), spreadText(f.Ratio))
		}
	}
	return b.String()
}

func sweepTable(s *sweepSection) string {
	var b strings.Builder
	header(&b, "server with", "p50, µs", "p99, µs", "p99.9, µs", "longest of a turn, µs", "longest of all, µs")
	for _, f := range []figures{s.With, s.Without} {
		table(&b, f.Title, brief(f.P50), brief(f.P99), brief(f.P999), brief(f.LongTurn), brief(f.Max))
	}
	return b.String()
}

func benchTable(r *result) string {
	var b strings.Builder
	header(&b, "shape", "CPU of bench, s", "of the server, s", "ratio")
	for _, c := range r.Bench {
		table(&b, c.Shape, brief(c.Bench), brief(c.Server), brief(c.Ratio))
	}
	return b.String()
}
