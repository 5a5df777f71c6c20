package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"ticketing/loop"
	"ticketing/shard"
)

// fakeSource is a server that says what a test tells it to.
type fakeSource struct {
	ready atomic.Bool
	snap  func(queues int) loop.Snapshot
	asked atomic.Int64 // snapshots taken
}

func (f *fakeSource) Ready() bool { return f.ready.Load() }

func (f *fakeSource) Snapshot(_ context.Context, queues int) loop.Snapshot {
	f.asked.Add(1)
	return f.snap(queues)
}

// nastyKeys are keys that a client may choose and a page must survive.
var nastyKeys = []string{
	"<script>document.title='owned'</script>",
	"orders/\x00\x1b[31m\r\t\u202egnp.exe",
	`quote"back\slash`,
	"naïve-ключ-鍵",
}

var started = time.Now().Add(-90 * time.Minute)

// busySnapshot is a server of two loops in the middle of work, with a
// different number in every field.
func busySnapshot(queues int) loop.Snapshot {
	now := time.Now()
	snap := loop.Snapshot{
		Started: started, Ready: true,
		Gauges: []loop.Gauge{
			{Name: "connections", Used: 41, Limit: 1024, Open: true},
			{Name: "waiters", Used: 14800, Limit: 16384, Open: false},
			{Name: "keys", Used: 7, Limit: 1048576, Open: true},
			{Name: "acquires_in_flight", Used: 1024, Limit: 4096, Open: true},
			{Name: "releases_in_flight", Used: 0, Limit: 512, Open: true},
		},
		MaxWaiters: 2048, Accepted: 99, Refused: 3, AcceptErrors: 5, Panics: 6,
		TLS: &loop.TLSSnapshot{Handshakes: 8, Full: 70, Resumed: 71, NotAfter: time.Unix(1e9, 0)},
	}
	snap.TLS.Ended[loop.EndTLS], snap.TLS.Ended[loop.EndPlaintext] = 1000, 2000
	for i := range 2 {
		l := loop.LoopSnapshot{
			Connections: 20 + i, Keys: 3 + i, Waiters: 7400, BusyInFlight: 17, At: now.Add(-time.Second),
			Shard: shard.Counters{
				Granted: 1000, TimedOut: 200, Left: 4, Parked: 700, BusyQueue: 11, BusyWaiters: 12, BusyKeys: 13,
				BusyTokens: 14, Released: 900, NotHeld: 30, Handovers: 500, Expiries: 60,
			},
		}
		l.Shard.WaitNanos.Buckets[0] = 900
		l.Shard.WaitNanos.Buckets[4] = 90
		l.Shard.WaitNanos.Buckets[shard.HistogramBuckets-1] = 10
		l.Shard.WaitNanos.SumNanos = 3_500_000_000
		l.Shard.HoldNanos.Buckets[14] = 960
		l.Shard.HoldNanos.SumNanos = 600_000_000_000
		for reason := range l.Ended {
			l.Ended[reason] = uint64(reason)
		}
		for k, key := range nastyKeys {
			if k%2 == i && k < queues*2 {
				l.Queues = append(l.Queues, shard.Queue{Key: key, Waiters: 2000 - 300*k})
			}
		}
		snap.Loops = append(snap.Loops, l)
	}
	return snap
}

func newFake() *fakeSource {
	f := &fakeSource{snap: busySnapshot}
	f.ready.Store(true)
	return f
}

func newServer(t *testing.T, source Source) *Server {
	t.Helper()
	s, err := New(Config{
		Source: source,
		Build:  Build{Version: "v1.2.3", Commit: "abc123", GoVersion: "go1.26"},
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

func request(t *testing.T, s *Server, method, path string) (int, string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body), w.Header()
}
