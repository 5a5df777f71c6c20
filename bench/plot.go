package bench

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// plot is one diagram of the report, drawn as SVG. Colours are classes of the
// page's style, so that they follow its light or dark theme.
type plot struct {
	title  string
	x, y   axis
	curves []curve
}

// curve is one line. A point whose y is not above 0 is a gap.
type curve struct {
	name, class string
	points      []point
}

type point struct{ x, y float64 }

// axis maps values to a side of the plot.
type axis struct {
	low, high float64
	log       bool // powers of ten are evenly spaced; low is above 0
	ticks     []tick
	text      func(float64) string // a value in words, for the pointer
}

type tick struct {
	at   float64
	text string
}

// The plot's sizes, in units of its own.
const (
	plotWidth, plotHeight = 720.0, 250.0
	plotLeft, plotRight   = 64.0, 14.0
	plotTop, plotBottom   = 10.0, 28.0
)

// place is where a value stands between the ends of an axis, 0 to 1.
func (a *axis) place(v float64) float64 {
	if a.log {
		return (math.Log(v) - math.Log(a.low)) / (math.Log(a.high) - math.Log(a.low))
	}
	return (v - a.low) / (a.high - a.low)
}

func (p *plot) at(pt point) (x, y float64) {
	return plotLeft + p.x.place(pt.x)*(plotWidth-plotLeft-plotRight),
		plotHeight - plotBottom - p.y.place(pt.y)*(plotHeight-plotTop-plotBottom)
}

// SVG draws the plot.
func (p *plot) SVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(p.title))
	for _, t := range p.y.ticks {
		_, y := p.at(point{p.x.low, t.at})
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick end" x="%g" y="%.1f">%s</text>`,
			plotLeft, plotWidth-plotRight, y, y, plotLeft-8, y+4, html.EscapeString(t.text))
	}
	bottom := plotHeight - plotBottom
	for _, t := range p.x.ticks {
		x, _ := p.at(point{t.at, p.y.low})
		fmt.Fprintf(&b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text class="tick mid" x="%.1f" y="%g">%s</text>`,
			x, x, bottom, bottom+4, x, bottom+18, html.EscapeString(t.text))
	}
	fmt.Fprintf(&b, `<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`, plotLeft, plotWidth-plotRight, bottom, bottom)
	for i := range p.curves {
		p.draw(&b, &p.curves[i])
	}
	b.WriteString(`<line class="cross" y1="10" y2="222" hidden="hidden"/></svg>`)
	return template.HTML(b.String())
}

func (p *plot) draw(b *strings.Builder, c *curve) {
	fmt.Fprintf(b, `<path class="curve %s" d="`, c.class)
	pen := 'M'
	for i, pt := range c.points {
		if pt.y <= 0 {
			pen = 'M'
			continue
		}
		x, y := p.at(pt)
		fmt.Fprintf(b, "%c%.1f %.1f", pen, x, y)
		alone := pen == 'M' && (i+1 == len(c.points) || c.points[i+1].y <= 0)
		if alone {
			b.WriteString("h.01") // a dot
		}
		pen = 'L'
	}
	b.WriteString(`"/>`)
}

// JSON is what the page's pointer shows: for each curve its points, in places of
// the plot and in words.
func (p *plot) JSON() (string, error) {
	type dot struct {
		X, Y  float64
		Where string
		Value string
	}
	type line struct {
		Name, Class string
		Dots        []dot
	}
	lines := []line{}
	for i := range p.curves {
		c := &p.curves[i]
		l := line{Name: c.name, Class: c.class}
		for _, pt := range c.points {
			if pt.y > 0 {
				x, y := p.at(pt)
				l.Dots = append(l.Dots, dot{math.Round(x*10) / 10, math.Round(y*10) / 10, p.x.text(pt.x), p.y.text(pt.y)})
			}
		}
		lines = append(lines, l)
	}
	text, err := json.Marshal(lines)
	return string(text), err
}

// linear makes an axis from 0 to at least high, with ticks at round numbers.
func linear(high float64, text func(float64) string) axis {
	if high <= 0 {
		high = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if high/(step*part) <= 6 {
			step *= part
			break
		}
	}
	a := axis{high: high, text: text}
	for v := 0.0; v <= high*1.0001; v += step {
		a.ticks = append(a.ticks, tick{v, text(v)})
	}
	return a
}

// decades makes an axis over powers of ten, with ticks at them and, when there
// are few, between.
func decades(low, high float64, text func(float64) string) axis {
	a := axis{low: low * 0.85, high: high * 1.2, log: true, text: text}
	between := []float64{1}
	if high/low < 300 {
		between = []float64{1, 2, 5}
	}
	for ten := math.Pow(10, math.Floor(math.Log10(a.low))); ten < a.high; ten *= 10 {
		for _, part := range between {
			if v := ten * part; v >= a.low && v <= a.high {
				a.ticks = append(a.ticks, tick{v, text(v)})
			}
		}
	}
	return a
}

// extent returns the least and the greatest y that is drawn, and false when
// there is none.
func extent(curves []curve) (low, high float64, any bool) {
	low = math.Inf(1)
	for _, c := range curves {
		for _, pt := range c.points {
			if pt.y > 0 {
				low, high, any = min(low, pt.y), max(high, pt.y), true
			}
		}
	}
	return low, high, any
}
