package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in ns: to 64 ns below 131 µs, to 0.1 % above, up to
// maxLatency.
const (
	minLatency = 100 * time.Nanosecond
	maxLatency = MaxDuration + time.Hour
	digits     = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(minLatency), int64(maxLatency), digits)
}

// tally is what one thread counted in one interval.
type tally struct {
	index    int   // of the interval; below 0 before measuring
	from, to int64 // ns since the run began
	late     bool  // answers that came after the end of measuring, to attempts due before it
	counts   [kinds]int64
	latency  [kinds]*hdrhistogram.Histogram // nil: none of the kind yet
}

func (t *tally) reset() {
	t.counts, t.late = [kinds]int64{}, false
	for _, h := range t.latency {
		if h != nil {
			h.Reset()
		}
	}
}

// record counts a reply to the request of a slot.
func (w *worker) record(kind int, s *slot, now int64) {
	if w.phase == draining {
		if w.rate == 0 || !s.measured || kind >= released {
			return
		}
	} else if w.cfg.Ops > 0 && w.phase == measuring && !s.measured {
		return
	}
	t := w.tally
	t.counts[kind]++
	h := t.latency[kind]
	if h == nil {
		h = newHistogram()
		t.latency[kind] = h
	}
	_ = h.RecordValue(min(max(now-s.due, 0), int64(maxLatency))) // fails for nothing in this range
}

// tick ends an interval.
func (w *worker) tick() {
	w.handOver(w.nextTick)
	w.nextTick += w.run.interval
}

// handOver gives the tally to the collector and takes another one.
func (w *worker) handOver(end int64) {
	t := w.tally
	t.to, t.late = end, w.phase == draining
	t.index = int((w.nextTick-w.start)/w.run.interval) - 1
	w.run.tallies <- t
	select {
	case w.tally = <-w.run.spare:
	default:
		w.tally = &tally{}
	}
	w.tally.from = end
}
