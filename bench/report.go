package bench

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
)

//go:embed report.html
var reportPage string

// reportRow is a line of the report's table.
type reportRow struct {
	Name, Class string
	Cells       []string
}

// WriteReport writes the result as one page of HTML that loads nothing.
func (r *Result) WriteReport(to io.Writer) error {
	page, err := template.New("report").Parse(reportPage)
	if err != nil {
		return err
	}
	var remarks bytes.Buffer
	r.writeRemarks(&remarks)
	var plots []*plot
	for _, p := range []*plot{r.throughputPlot(), r.latencyPlot(), r.distributionPlot()} {
		if p != nil {
			plots = append(plots, p)
		}
	}
	type tile struct{ Name, Value string }
	rate := 0.0
	if r.Seconds > 0 {
		rate = float64(r.Counts.Attempts()) / r.Seconds
	}
	tiles := []tile{{"attempts a second", grouped(rate)}}
	if l, ok := r.Latency[kindNames[granted]]; ok {
		tiles = append(tiles, tile{"p50 of grants", latencyText(l.P50)}, tile{"p99", latencyText(l.P99)}, tile{"p99.9", latencyText(l.P999)})
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{
		"Result": r, "Started": r.Started.Format("2006-01-02 15:04:05 UTC"), "Setup": r.Setup.describe(),
		"Tiles": tiles, "Rows": r.reportRows(), "Plots": plots,
		"Violated": r.Violated(), "More": r.Violated() - int64(len(r.Violations)),
		"Remarks": strings.Split(strings.TrimSpace(remarks.String()), "\n"), "CPU": strings.TrimPrefix(r.cpuText(), "CPU per request: "),
	})
	if err != nil {
		return err
	}
	_, err = to.Write(b.Bytes())
	return err
}

// Title is what stands above a plot.
func (p *plot) Title() string { return p.title }

// Legend lists the curves of a plot.
func (p *plot) Legend() (all []struct{ Name, Class string }) {
	for _, c := range p.curves {
		all = append(all, struct{ Name, Class string }{c.name, c.class})
	}
	return all
}

func (r *Result) reportRows() (rows []reportRow) {
	for kind, count := range r.Counts.list() {
		l := r.Latency[kindNames[kind]]
		if count == 0 && l.Count == 0 {
			continue
		}
		row := reportRow{Name: kindOps[kind] + " " + kindLabel(kind), Class: "k" + kindOps[kind]}
		row.Cells = append(row.Cells, grouped(float64(count)), grouped(float64(count)/max(r.Seconds, 1e-9)))
		for _, ns := range []int64{l.P50, l.P90, l.P99, l.P999, l.Max} {
			text := ""
			if l.Count > 0 {
				text = latencyText(ns)
			}
			row.Cells = append(row.Cells, text)
		}
		rows = append(rows, row)
	}
	return rows
}

func kindLabel(kind int) string { return strings.ReplaceAll(kindNames[kind], "_", " ") }

func secondsText(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) + " s" }

func nanosText(v float64) string { return latencyText(int64(v)) }

// roundNanos is for ticks, which stand at round values.
func roundNanos(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if v >= unit.size*0.999 {
			return strconv.FormatFloat(v/unit.size, 'g', 3, 64) + " " + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " ns"
}

// short is for ticks of counts.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + " M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + " k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// timeAxis is that of what is drawn over the run.
func (r *Result) timeAxis() axis { return linear(max(r.Seconds, 0.001), secondsText) }

// middle is the instant at which a point of the series is drawn.
func (p *Point) middle() float64 { return p.From + p.Seconds/2 }

// throughputPlot draws replies a second over time, of each kind that came. Nil:
// there were none.
func (r *Result) throughputPlot() *plot {
	p := &plot{title: "Replies per second", x: r.timeAxis()}
	for kind := range kinds {
		if r.Counts.list()[kind] == 0 {
			continue
		}
		c := curve{name: kindOps[kind] + " " + kindLabel(kind), class: "k" + kindOps[kind]}
		for i := range r.Series {
			s := &r.Series[i]
			c.points = append(c.points, point{s.middle(), float64(s.Counts.list()[kind]) / s.Seconds})
		}
		p.curves = append(p.curves, c)
	}
	_, high, any := extent(p.curves)
	if !any {
		return nil
	}
	p.y = linear(high*1.05, short)
	p.y.text = grouped
	return p
}

// latencyPlot draws the latency of grants over time.
func (r *Result) latencyPlot() *plot {
	p := &plot{title: "Latency of grants", x: r.timeAxis()}
	for _, c := range []struct {
		name, class string
		of          func(*Point) int64
	}{
		{"p50", "q50", func(s *Point) int64 { return s.P50 }},
		{"p99", "q99", func(s *Point) int64 { return s.P99 }},
		{"max", "q100", func(s *Point) int64 { return s.Max }},
	} {
		line := curve{name: c.name, class: c.class}
		for i := range r.Series {
			line.points = append(line.points, point{r.Series[i].middle(), float64(c.of(&r.Series[i]))})
		}
		p.curves = append(p.curves, line)
	}
	low, high, any := extent(p.curves)
	if !any {
		return nil
	}
	p.y = decades(low, high, roundNanos)
	p.y.text = nanosText
	return p
}

// distributionPlot draws latency against the share of replies that were faster:
// every nine more has the same room.
func (r *Result) distributionPlot() *plot {
	p := &plot{title: "Latency distribution"}
	least := 1e-2 // the smallest share of slower replies that can be told
	for kind := range kinds {
		l, ok := r.Latency[kindNames[kind]]
		if !ok || l.Count == 0 {
			continue
		}
		h, err := l.Histogram()
		if err != nil {
			continue
		}
		smallest := min(1/float64(l.Count), 0.5)
		least = min(least, smallest)
		c := curve{name: kindOps[kind] + " " + kindLabel(kind), class: "k" + kindOps[kind]}
		for slower := 1.0; slower > smallest; slower *= 0.85 {
			c.points = append(c.points, point{1 / slower, float64(h.ValueAtQuantile(100 * (1 - slower)))})
		}
		c.points = append(c.points, point{1 / smallest, float64(h.Max())})
		p.curves = append(p.curves, c)
	}
	low, high, any := extent(p.curves)
	if !any {
		return nil
	}
	p.y = decades(low, high, roundNanos)
	p.y.text = nanosText
	p.x = axis{low: 1, high: 1 / least, log: true, text: func(v float64) string { return percent(1 / v) }}
	p.x.ticks = []tick{{1, "0 %"}, {2, "50 %"}}
	for slower := 0.1; slower >= least*0.999; slower /= 10 {
		p.x.ticks = append(p.x.ticks, tick{1 / slower, percent(slower)})
	}
	return p
}

// percent is what is left of 100 % without a share, with as many nines as tell.
func percent(without float64) string {
	decimals := 1
	for scale := 0.01; without < scale && decimals < 9; scale /= 10 {
		decimals++
	}
	text := fmt.Sprintf("%.*f", decimals, 100*(1-without))
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" {
		text = "0"
	}
	return text + " %"
}
