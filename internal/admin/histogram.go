package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"ticketing/shard"
)

// histogram turns a shard's histogram of nanoseconds into one of seconds. Each
// of the shard's buckets counts its own; Prometheus wants them added up. That
// a bound belongs to the next bucket there and to the one before here makes a
// difference of one nanosecond.
func histogram(d *prometheus.Desc, h *shard.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, shard.HistogramBuckets-1)
	var count uint64
	for i, n := range h.Buckets {
		count += n
		if bound := shard.HistogramBound(i); bound != 0 {
			buckets[float64(bound)/1e9] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, float64(h.SumNanos)/1e9, buckets)
}
