package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ticketing/loop"
)

// Every metric of a node, described once. docs/operations.md lists them for
// readers; a test holds the two together.
var (
	buildDesc = desc("build_info", "What runs: always 1.", "version", "commit", "goversion")

	readyDesc       = desc("ready", "1 while new work is accepted, 0 while starting or draining.")
	drainingDesc    = desc("draining", "1 once the node was told to end.")
	connectionsDesc = desc("connections", "Client connections now.")
	waitersDesc     = desc("waiters", "Attempts that wait in a queue now.")
	keysDesc        = desc("keys", "Keys that are held now, expired leases included until they are noticed.")

	limitDesc = desc("limit", "Hard limit of a resource.", "resource")
	inUseDesc = desc("in_use", "Use of a limited resource now.", "resource")
	openDesc  = desc("admission_open", "1 while the resource's admission is open, 0 while it refuses.", "resource")

	acquiresDesc  = desc("acquires_total", "Acquires decided, by result.", "result")
	releasesDesc  = desc("releases_total", "Releases answered, by result.", "result")
	parkedDesc    = desc("acquires_parked_total", "Acquires that joined a queue.")
	leftDesc      = desc("acquires_left_total", "Acquires that left a queue because their connection ended.")
	handoversDesc = desc("handovers_total", "Grants to the first waiter of a queue, after a release or an expiry.")
	expiriesDesc  = desc("expiries_total", "Leases that ended without a release.")
	refusalsDesc  = desc("refusals_total", "Acquires answered B and connections closed at once, by the limit that was reached.", "reason")
	waitDesc      = desc("wait_seconds", "Time from an acquire to its grant, 0 when granted at once.")
	holdDesc      = desc("hold_seconds", "Time from a grant to its release; an expiry counts the whole lease.")

	acceptedDesc     = desc("connections_accepted_total", "Client connections accepted and served.")
	closedDesc       = desc("connections_closed_total", "Client connections ended, by reason.", "reason")
	acceptErrorsDesc = desc("accept_errors_total", "Failed accepts: out of file descriptors and the like.")

	loopConnectionsDesc = desc("loop_connections", "Client connections of one loop now.", "loop")
	loopKeysDesc        = desc("loop_keys", "Entries in the key table of one loop now.", "loop")
	loopWaitersDesc     = desc("loop_waiters", "Attempts that wait at one loop now.", "loop")
	loopAgeDesc         = desc("loop_published_age_seconds", "How old the numbers of one loop are; much over a second means that it hangs.", "loop")

	tlsUnderWayDesc  = desc("tls_handshakes_in_progress", "TLS handshakes under way; none without TLS.")
	tlsHandshakeDesc = desc("tls_handshakes_total", "TLS handshakes made, by result; failed ones are in ticketing_connections_closed_total.", "result")
	tlsNotAfterDesc  = desc("tls_certificate_not_after_timestamp_seconds", "When the server's certificate ends; only with TLS.")

	panicsDesc      = desc("panics_total", "Defects of the server that cost one connection each.")
	adminPanicsDesc = desc("admin_panics_total", "Panics of the admin endpoint that were recovered from.")
)

var allDescs = []*prometheus.Desc{
	buildDesc, readyDesc, drainingDesc, connectionsDesc, waitersDesc, keysDesc, limitDesc, inUseDesc, openDesc,
	acquiresDesc, releasesDesc, parkedDesc, leftDesc, handoversDesc, expiriesDesc, refusalsDesc, waitDesc, holdDesc,
	acceptedDesc, closedDesc, acceptErrorsDesc, loopConnectionsDesc, loopKeysDesc, loopWaitersDesc, loopAgeDesc,
	tlsUnderWayDesc, tlsHandshakeDesc, tlsNotAfterDesc, panicsDesc, adminPanicsDesc,
	leadsDesc, leaderKnownDesc, termDesc, commitDesc, appliedDesc, snapshotIndexDesc, stateKeysDesc, lastTokenDesc,
	membersDesc, memberActiveDesc, memberMatchDesc,
	proposalsDesc, turnsDesc, readsDesc, droppedDesc, electionsDesc, leadersDesc, misfitsDesc, snapshotsDesc, fsyncDesc,
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ticketing_"+name, help, labels, nil)
}

// collector turns one snapshot of the server into metrics at each scrape. It
// keeps no number of its own.
type collector struct{ server *Server }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range allDescs {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It runs on a goroutine of the
// registry, where a panic would end the process: it is turned into a failed
// scrape here.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if cause := recover(); cause != nil {
			c.server.panicked("metrics", cause)
			ch <- prometheus.NewInvalidMetric(buildDesc, fmt.Errorf("collecting panicked: %v", cause))
		}
	}()
	snap := c.server.snapshot(context.Background(), 0)
	total := addUp(&snap)
	out := sink{ch}
	build := c.server.build
	out.gauge(buildDesc, 1, build.Version, build.Commit, build.GoVersion)
	out.counter(adminPanicsDesc, c.server.panics.Load())
	out.state(&snap)
	out.work(&snap, &total)
	out.connections(&snap, &total)
	out.loops(&snap, time.Now())
	if c.server.cluster != nil {
		status := c.server.cluster.Status()
		out.cluster(&status)
	}
}

// sink sends metrics of one scrape.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v uint64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func (s sink) state(snap *loop.Snapshot) {
	s.gauge(readyDesc, oneIf(snap.Ready))
	s.gauge(drainingDesc, oneIf(snap.Draining))
	s.gauge(connectionsDesc, float64(gauge(snap, "connections").Used))
	s.gauge(waitersDesc, float64(gauge(snap, "waiters").Used))
	s.gauge(keysDesc, float64(gauge(snap, "keys").Used))
	for _, g := range snap.Gauges {
		s.gauge(limitDesc, float64(g.Limit), g.Name)
		s.gauge(inUseDesc, float64(g.Used), g.Name)
		s.gauge(openDesc, oneIf(g.Open), g.Name)
	}
	// The longest queue is not looked for at every scrape, so this row of §7
	// has a limit only; ticketing_refusals_total says whether it is reached.
	s.gauge(limitDesc, float64(snap.MaxWaiters), waitersPerKey)
}

func (s sink) work(snap *loop.Snapshot, total *totals) {
	c := &total.shard
	s.counter(acquiresDesc, c.Granted, "granted")
	s.counter(acquiresDesc, c.TimedOut, "timeout")
	s.counter(acquiresDesc, total.busy(), "busy")
	s.counter(parkedDesc, c.Parked)
	s.counter(leftDesc, c.Left)
	s.counter(releasesDesc, c.Released, "released")
	s.counter(releasesDesc, c.NotHeld, "not_held")
	s.counter(handoversDesc, c.Handovers)
	s.counter(expiriesDesc, c.Expiries)
	for reason, n := range total.refusals(snap) {
		s.counter(refusalsDesc, n, reason)
	}
	s.ch <- histogram(waitDesc, &c.WaitNanos)
	s.ch <- histogram(holdDesc, &c.HoldNanos)
}

func (s sink) connections(snap *loop.Snapshot, total *totals) {
	s.counter(acceptedDesc, snap.Accepted)
	s.counter(acceptErrorsDesc, snap.AcceptErrors)
	s.counter(panicsDesc, snap.Panics)
	if t := snap.TLS; t != nil {
		s.gauge(tlsUnderWayDesc, float64(t.Handshakes))
		s.counter(tlsHandshakeDesc, t.Full, "full")
		s.counter(tlsHandshakeDesc, t.Resumed, "resumed")
		if !t.NotAfter.IsZero() {
			s.gauge(tlsNotAfterDesc, float64(t.NotAfter.Unix()))
		}
	}
	for reason, n := range total.ended {
		s.counter(closedDesc, n, loop.EndReason(reason).String())
	}
}

func (s sink) loops(snap *loop.Snapshot, now time.Time) {
	for i := range snap.Loops {
		l, label := &snap.Loops[i], strconv.Itoa(i)
		s.gauge(loopConnectionsDesc, float64(l.Connections), label)
		s.gauge(loopKeysDesc, float64(l.Keys), label)
		s.gauge(loopWaitersDesc, float64(l.Waiters), label)
		s.gauge(loopAgeDesc, age(l, now).Seconds(), label)
	}
}

// age is how long ago a loop published its numbers, never negative.
func age(l *loop.LoopSnapshot, now time.Time) time.Duration {
	return max(0, now.Sub(l.At))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// registry returns a registry of this server's own: nothing that another
// package registers globally shows up in it.
func (s *Server) registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collector{s},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return reg
}

func (s *Server) metricsHandler() http.Handler {
	return promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		MaxRequestsInFlight: maxScrapes,
	})
}
