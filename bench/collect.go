package bench

import (
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Progress is how far a run is.
type Progress struct {
	Warming    bool
	Elapsed    time.Duration // since the phase began
	Of         time.Duration // how long the phase takes; 0: until Ops are done
	Done, Ops  int64         // attempts answered, and how many there are to be; Ops is 0 in a run by time
	Rate       float64       // attempts answered a second, in the last interval
	P50, P99   time.Duration // of grants, in the last interval; 0: there were none
	Violations int64
	Ended      int // connections that the server ended
}

// collector adds up what threads hand over, interval by interval.
type collector struct {
	run    *run
	result *Result
	parts  map[int]*part // the intervals that are not complete
	total  [kinds]*hdrhistogram.Histogram
	done   int64
	spare  []*hdrhistogram.Histogram // empty ones, for parts
}

// part is an interval of which some threads have handed over theirs.
type part struct {
	threads  int
	from, to int64
	counts   [kinds]int64
	grants   *hdrhistogram.Histogram // latencies; nil: none
}

func newCollector(r *run, result *Result) *collector {
	return &collector{run: r, result: result, parts: map[int]*part{}}
}

// add takes one tally, and keeps nothing of it.
func (c *collector) add(t *tally) {
	if t.late {
		for kind, h := range t.latency {
			c.result.Late += t.counts[kind]
			c.merge(&c.total[kind], h)
		}
		return
	}
	if t.to <= t.from {
		return
	}
	p := c.parts[t.index]
	if p == nil {
		p = &part{from: t.from}
		c.parts[t.index] = p
	}
	p.threads++
	p.to = max(p.to, t.to)
	for kind, n := range t.counts {
		p.counts[kind] += n
		if t.index >= 0 {
			c.merge(&c.total[kind], t.latency[kind])
		}
	}
	c.merge(&p.grants, t.latency[granted])
	// A thread may end before the others, so one that is two intervals ahead is
	// enough.
	for _, index := range slices.Sorted(maps.Keys(c.parts)) {
		if index < t.index-1 || c.parts[index].threads == c.run.cfg.Threads {
			c.complete(index)
		}
	}
}

// merge adds one histogram to another, which is made when it is needed.
func (c *collector) merge(into **hdrhistogram.Histogram, h *hdrhistogram.Histogram) {
	if h == nil || h.TotalCount() == 0 {
		return
	}
	if *into == nil {
		if n := len(c.spare); n > 0 {
			*into, c.spare = c.spare[n-1], c.spare[:n-1]
		} else {
			*into = newHistogram()
		}
	}
	(*into).Merge(h)
}

// complete makes a point of the series of an interval, and tells of it.
func (c *collector) complete(index int) {
	p := c.parts[index]
	delete(c.parts, index)
	point := Point{From: seconds(p.from - c.result.start), Seconds: seconds(p.to - p.from), Counts: countsOf(p.counts)}
	if p.grants != nil {
		point.P50, point.P99, point.Max = p.grants.ValueAtQuantile(50), p.grants.ValueAtQuantile(99), p.grants.Max()
		p.grants.Reset()
		c.spare = append(c.spare, p.grants)
	}
	if index >= 0 {
		c.result.Series = append(c.result.Series, point)
		c.done += point.Counts.Attempts()
	}
	c.tell(index < 0, p, &point)
}

func (c *collector) tell(warming bool, p *part, point *Point) {
	cfg := &c.run.cfg
	if cfg.Progress == nil {
		return
	}
	progress := Progress{
		Warming: warming, Of: cfg.Duration, Done: c.done, Ops: cfg.Ops,
		Elapsed: time.Duration(p.to - c.result.start),
		Rate:    float64(point.Counts.Attempts()) / point.Seconds,
		P50:     time.Duration(point.P50), P99: time.Duration(point.P99),
		Violations: c.run.found.total(), Ended: c.run.endCount(),
	}
	if warming {
		progress.Of = cfg.Warmup
		progress.Elapsed += cfg.Warmup
	}
	cfg.Progress(progress)
}

// finish completes the result.
func (c *collector) finish(workers []*worker) {
	for _, index := range slices.Sorted(maps.Keys(c.parts)) {
		c.complete(index)
	}
	r := c.result
	var stop int64
	for _, w := range workers {
		stop = max(stop, w.stop)
		r.Unanswered += w.unanswered
		r.Indeterminate += w.indeterminate
		r.Unsent += w.unsent
		r.CPU.Generator += w.cpu.Seconds()
	}
	r.CPU.Process = workers[0].processCPU.Seconds()
	r.Seconds = seconds(max(stop-r.start, 0))
	var counts [kinds]int64
	for _, point := range r.Series {
		for kind, n := range point.Counts.list() {
			counts[kind] += n
		}
	}
	r.Counts = countsOf(counts)
	r.Latency = latenciesOf(c.total)
	c.run.mu.Lock()
	r.Ends = c.run.ends
	c.run.mu.Unlock()
	c.run.found.mu.Lock()
	r.Violations, r.ViolationCounts = c.run.found.kept, c.run.found.count
	c.run.found.mu.Unlock()
}

func (r *run) endCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends.Count
}
