package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// plotsOf makes the plots of docs/performance.md, by the name of their file. They
// are SVG with a style of their own, for light and dark backgrounds.
func plotsOf(r *result) map[string]string {
	plots := map[string]string{}
	var cpu, latency []barGroup
	for _, p := range r.Pairs {
		cpu = append(cpu, groupOf(p.Shape.String(), without(p.Figures, etcdLock)))
		g := barGroup{title: p.Shape.String()}
		for _, f := range without(p.Figures, etcdLock) {
			g.bars = append(g.bars, bar{f.Short, f.Title, f.P99, f.P50, f.P999})
		}
		latency = append(latency, g)
	}
	plots["pairs.svg"] = chart("Server CPU of an acquire and its release, µs: median, least and greatest of the turns", cpu, false)
	plots["latency.svg"] = chart("Latency of an acquire, µs, logarithmic: bar to p99, line from p50 to p99.9", latency, true)
	var hand []barGroup
	for _, h := range r.HandOvers {
		hand = append(hand, groupOf(h.Title, h.Figures))
	}
	plots["hand-overs.svg"] = chart("Server CPU of a hand-over, µs: median, least and greatest of the turns", hand, false)
	var grown []barGroup
	for _, g := range append(append([]growth{}, r.Held...), r.Connected...) {
		group := groupOf(g.Title, g.Figures)
		for i := range group.bars {
			group.bars[i].name = g.Figures[i].Title
		}
		grown = append(grown, group)
	}
	plots["growth.svg"] = chart("Server CPU of a pair at 16×64 beside more and more, µs", grown, false)
	return plots
}

// bar is a value with a line from low to high.
type bar struct {
	name, title      string
	value, low, high float64
}

type barGroup struct {
	title string
	bars  []bar
}

func groupOf(title string, all []figures) barGroup {
	g := barGroup{title: title}
	for _, f := range all {
		name := f.Short
		if name == "" {
			name = f.Title
		}
		g.bars = append(g.bars, bar{name, f.Title, f.CPU.Median, f.CPU.Min, f.CPU.Max})
	}
	return g
}

func without(all []figures, id string) (rest []figures) {
	for _, f := range all {
		if f.ID != id {
			rest = append(rest, f)
		}
	}
	return rest
}

const plotStyle = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.head { font-weight: 600; }
.dim { fill: #57606a; }
.grid { stroke: #d0d7de; }
.ours { fill: #1a7f37; }
.peer { fill: #8c959f; }
.line { stroke: #24292f; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .dim { fill: #9198a1; }
  .grid { stroke: #3d444d; }
  .ours { fill: #3fb950; }
  .peer { fill: #6e7681; }
  .line { stroke: #e6edf3; }
}
</style>
`

// The measures of a chart in pixels.
const (
	chartWidth, nameWidth, valueWidth = 760, 190, 70
	barHeight, barStep, groupGap      = 13, 18, 30
	chartTop                          = 34
)

// chart draws groups of horizontal bars, one below the other, on one scale for
// each group, since groups differ by more than what is to be seen within one.
func chart(title string, groups []barGroup, logarithmic bool) string {
	var b strings.Builder
	y := chartTop
	for _, g := range groups {
		y = drawGroup(&b, y, g, logarithmic)
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%[1]d\" height=\"%[2]d\" role=\"img\">\n<title>%[3]s</title>\n",
		chartWidth, y, html.EscapeString(title)) + plotStyle +
		fmt.Sprintf("<text x=\"8\" y=\"18\" class=\"head\">%s</text>\n", html.EscapeString(title)) + b.String() + "</svg>\n"
}

func drawGroup(b *strings.Builder, y int, g barGroup, logarithmic bool) int {
	const room = chartWidth - nameWidth - valueWidth
	low, high := math.Inf(1), 0.0
	for _, r := range g.bars {
		low, high = min(low, r.low), max(high, r.value, r.high)
	}
	x := func(v float64) float64 { return nameWidth + room*v/high }
	if logarithmic {
		from := math.Pow(10, math.Floor(math.Log10(max(low, 1e-3))))
		x = func(v float64) float64 { return nameWidth + room*math.Log(max(v, from)/from)/math.Log(high/from) }
	}
	fmt.Fprintf(b, "<text x=\"8\" y=\"%d\" class=\"head\">%s</text>\n", y+10, html.EscapeString(g.title))
	y += barStep
	fmt.Fprintf(b, "<line x1=\"%d\" x2=\"%[1]d\" y1=\"%d\" y2=\"%d\" class=\"grid\"/>\n", nameWidth, y-2, y+barStep*len(g.bars)-2)
	for _, r := range g.bars {
		class := "peer"
		if strings.HasPrefix(r.title, "Ticketing") || strings.HasPrefix(g.title, "Ticketing") {
			class = "ours"
		}
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", nameWidth-8, y+11, html.EscapeString(r.name))
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"%s\"><title>%s</title></rect>",
			nameWidth, y, max(x(r.value)-nameWidth, 1), barHeight, class, html.EscapeString(r.title))
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%[3]d\" class=\"line\"/>", x(r.low), x(r.high), y+barHeight/2)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" class=\"dim\">%s</text>\n", max(x(r.value), x(r.high))+6, y+11, brief(r.value))
		y += barStep
	}
	return y + groupGap - barStep
}
