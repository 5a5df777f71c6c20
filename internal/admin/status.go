package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ticketing/loop"
	"ticketing/shard"
)

const (
	waitersPerKey = "waiters_per_key" // the row of §7 that no admission guards
	defaultQueues = 10                // longest queues in /status unless asked otherwise
	maxQueues     = 100               // most that /status?queues=N gives
)

// Status is what /status says, as JSON.
type Status struct {
	Version       string    `json:"version"`
	Commit        string    `json:"commit"`
	GoVersion     string    `json:"go_version"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Ready         bool      `json:"ready"`
	Draining      bool      `json:"draining"`
	// Gauges has every row of §7 that counts over the whole server, and
	// waiters_per_key, whose use is the longest queue there is.
	Gauges []loop.Gauge `json:"gauges"`
	Totals Totals       `json:"totals"`
	Loops  []LoopStatus `json:"loops"`
	// Queues are the longest queues, longest first.
	Queues []QueueStatus `json:"queues"`
	// Cluster is there in cluster mode only.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
}

// Totals counts from the start of the process.
type Totals struct {
	Granted      uint64            `json:"granted"`
	Timeout      uint64            `json:"timeout"`
	Busy         uint64            `json:"busy"`
	Parked       uint64            `json:"parked"`
	Left         uint64            `json:"left"`
	Released     uint64            `json:"released"`
	NotHeld      uint64            `json:"not_held"`
	Handovers    uint64            `json:"handovers"`
	Expiries     uint64            `json:"expiries"`
	Refusals     map[string]uint64 `json:"refusals"` // by limit
	Accepted     uint64            `json:"connections_accepted"`
	AcceptErrors uint64            `json:"accept_errors"`
	Closed       map[string]uint64 `json:"connections_closed"` // by reason
	Panics       uint64            `json:"panics"`
}

// LoopStatus is one loop and its shard.
type LoopStatus struct {
	Connections int     `json:"connections"`
	Keys        int     `json:"keys"`
	Waiters     int     `json:"waiters"`
	AgeSeconds  float64 `json:"age_seconds"` // since the loop published this
}

// QueueStatus is one queue. A key is any text: Key is exact, Label is safe to
// show, with everything that does not print escaped as in a Go string.
type QueueStatus struct {
	Key     string `json:"key"`
	Label   string `json:"label"`
	Waiters int    `json:"waiters"`
}

func (s *Server) handleStatus(w http.ResponseWriter, r *http.Request) {
	queues := defaultQueues
	if text := r.URL.Query().Get("queues"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxQueues {
			http.Error(w, "queues is 0.."+strconv.Itoa(maxQueues), http.StatusBadRequest)
			return
		}
		queues = n
	}
	snap := s.snapshot(r.Context(), queues)
	status := makeStatus(&snap, s.build, queues, time.Now())
	if s.cluster != nil {
		part := s.cluster.Status()
		part.Hashes = nil
		status.Cluster = &part
	}
	writeJSON(w, http.StatusOK, status)
}

func makeStatus(snap *loop.Snapshot, build Build, queues int, now time.Time) *Status {
	longest := longestQueues(snap.Loops, queues)
	total := addUp(snap)
	status := &Status{
		Version: build.Version, Commit: build.Commit, GoVersion: build.GoVersion,
		Started: snap.Started, UptimeSeconds: now.Sub(snap.Started).Seconds(),
		Ready: snap.Ready, Draining: snap.Draining,
		Gauges: slices.Clone(snap.Gauges),
		Totals: makeTotals(snap, &total),
		Loops:  make([]LoopStatus, 0, len(snap.Loops)),
		Queues: make([]QueueStatus, 0, len(longest)),
	}
	if queues > 0 {
		perKey := loop.Gauge{Name: waitersPerKey, Limit: snap.MaxWaiters}
		if len(longest) > 0 {
			perKey.Used = longest[0].Waiters
		}
		perKey.Open = perKey.Used < perKey.Limit
		status.Gauges = append(status.Gauges, perKey)
	}
	for i := range snap.Loops {
		l := &snap.Loops[i]
		status.Loops = append(status.Loops, LoopStatus{
			Connections: l.Connections, Keys: l.Keys, Waiters: l.Waiters, AgeSeconds: age(l, now).Seconds(),
		})
	}
	for _, q := range longest {
		status.Queues = append(status.Queues, QueueStatus{Key: q.Key, Label: keyLabel(q.Key), Waiters: q.Waiters})
	}
	return status
}

func makeTotals(snap *loop.Snapshot, total *totals) Totals {
	closed := make(map[string]uint64, len(total.ended))
	for reason, n := range total.ended {
		closed[loop.EndReason(reason).String()] = n
	}
	c := &total.shard
	return Totals{
		Granted: c.Granted, Timeout: c.TimedOut, Busy: total.busy(), Parked: c.Parked, Left: c.Left,
		Released: c.Released, NotHeld: c.NotHeld, Handovers: c.Handovers, Expiries: c.Expiries,
		Refusals: total.refusals(snap),
		Accepted: snap.Accepted, AcceptErrors: snap.AcceptErrors, Closed: closed, Panics: snap.Panics,
	}
}

// longestQueues merges what each loop gave, longest first and by key where
// they are equal, so that a page does not flicker.
func longestQueues(loops []loop.LoopSnapshot, limit int) []shard.Queue {
	var all []shard.Queue
	for i := range loops {
		all = append(all, loops[i].Queues...)
	}
	slices.SortFunc(all, func(a, b shard.Queue) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), strings.Compare(a.Key, b.Key))
	})
	return all[:min(limit, len(all))]
}

// keyLabel shows a key on one line: control characters, direction overrides
// and all else that does not print become escapes.
func keyLabel(key string) string {
	quoted := strconv.Quote(key)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
