package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ticketing/loop"
)

// gnet, which package loop imports, starts a pool as soon as it is linked.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func TestNewNeedsItsParts(t *testing.T) {
	for name, cfg := range map[string]Config{
		"source": {Logger: slog.Default()},
		"logger": {Source: newFake()},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("no %s: no error", name)
		}
	}
}

func TestRoutes(t *testing.T) {
	source := newFake()
	s := newServer(t, source)
	for _, c := range []struct {
		method, path string
		code         int
		contentType  string
	}{
		{"GET", "/healthz", 200, "text/plain"},
		{"HEAD", "/healthz", 200, "text/plain"},
		{"GET", "/readyz", 200, "text/plain"},
		{"GET", "/status", 200, "application/json"},
		{"GET", "/metrics", 200, "text/plain"},
		{"GET", "/", 200, "text/html"},
		{"GET", "/debug/pprof/", 200, "text/html"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "text/plain"},
		{"GET", "/debug/pprof/heap", 200, "application/octet-stream"},
		{"GET", "/debug/pprof/nothing", 404, ""},
		{"GET", "/nothing", 404, ""},
		{"GET", "/healthz/more", 404, ""},
		{"POST", "/nothing", 404, ""},
		{"POST", "/healthz", 405, ""},
		{"POST", "/", 405, ""},
		{"PUT", "/status", 405, ""},
		{"DELETE", "/metrics", 405, ""},
		{"POST", "/debug/pprof/symbol", 405, ""},
		{"POST", "/debug/pprof/mutex", 405, ""},
		{"GET", "/status?queues=-1", 400, ""},
		{"GET", "/status?queues=0", 200, ""},
		{"GET", "/status?queues=100", 200, ""},
		{"GET", "/status?queues=101", 400, ""},
		{"GET", "/status?queues=x", 400, ""},
		{"GET", "/debug/pprof/block?seconds=0", 400, ""},
		{"GET", "/debug/pprof/block?seconds=301", 400, ""},
	} {
		code, _, header := request(t, s, c.method, c.path)
		if code != c.code {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, code, c.code)
		}
		if !strings.HasPrefix(header.Get("Content-Type"), c.contentType) {
			t.Errorf("%s %s: content type %q, want %q", c.method, c.path, header.Get("Content-Type"), c.contentType)
		}
		if header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: sniffable", c.method, c.path)
		}
	}
}

func TestReadinessFollowsTheServer(t *testing.T) {
	source := newFake()
	s := newServer(t, source)
	for _, ready := range []bool{false, true, false} {
		source.ready.Store(ready)
		want := 503
		if ready {
			want = 200
		}
		if code, _, _ := request(t, s, "GET", "/readyz"); code != want {
			t.Errorf("ready %v: %d, want %d", ready, code, want)
		}
		if code, _, _ := request(t, s, "GET", "/healthz"); code != 200 {
			t.Errorf("ready %v: not healthy: %d", ready, code)
		}
	}
	if n := source.asked.Load(); n != 0 {
		t.Errorf("health checks took %d snapshots: they must stay cheap", n)
	}
}

// A defect in what a request runs must end that request only, on the
// goroutine of the request and on those of the metrics registry alike.
func TestPanicsAreCountedAndSurvived(t *testing.T) {
	source := newFake()
	s := newServer(t, source)
	source.snap = func(int) loop.Snapshot { panic("defect") }
	for _, path := range []string{"/status", "/metrics"} {
		if code, _, _ := request(t, s, "GET", path); code != 500 {
			t.Errorf("%s: %d, want 500", path, code)
		}
	}
	source.snap = busySnapshot
	code, body, _ := request(t, s, "GET", "/metrics")
	if code != 200 || !strings.Contains(body, "ticketing_admin_panics_total 2\n") {
		t.Errorf("after two panics: %d, no count of 2", code)
	}
}

// listen serves s on a free port until the returned stop was called, which
// gives Serve's error.
func listen(t *testing.T, s *Server) (url string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	stopped := false
	stop = func() error {
		cancel()
		if stopped {
			return nil
		}
		stopped = true
		return <-ended
	}
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String(), stop
}

func TestServeEndsWithRequestsUnderWay(t *testing.T) {
	s := newServer(t, newFake())
	url, stop := listen(t, s)
	answered := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		resp, err := http.Get(url + "/debug/pprof/trace?seconds=100")
		close(begun)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		answered <- err
	}()
	<-begun // the trace runs: its header was sent
	start := time.Now()
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v: waited for the trace", took)
	}
	if err := <-answered; err != nil {
		t.Errorf("the trace broke off: %v", err)
	}
	if _, err := http.Get(url + "/healthz"); err == nil {
		t.Error("still served after the end")
	}
}

func TestServeReturnsTheListenersError(t *testing.T) {
	s := newServer(t, newFake())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := s.Serve(context.Background(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// What idles makes room, the longest idle first; what is at work does not.
func TestConnectionsAreLimited(t *testing.T) {
	s := newServer(t, newFake())
	s.patience = patience{time.Hour, time.Hour, time.Hour, time.Hour} // only room closes connections
	url, _ := listen(t, s)
	addr := strings.TrimPrefix(url, "http://")
	const request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	answered := func(c net.Conn) bool {
		fmt.Fprint(c, request)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		return err == nil && r.StatusCode == http.StatusOK
	}
	ended := func(c net.Conn) bool {
		_, err := c.Read(make([]byte, 1))
		return err != nil
	}
	var kept []net.Conn
	for i := range MaxConnections {
		c := dial()
		if !answered(c) {
			t.Fatalf("connection %d of %d was not served", i+1, MaxConnections)
		}
		kept = append(kept, c)
		s.places.awaitIdle(t, i+1) // which is a moment after the answer
	}
	if !answered(dial()) {
		t.Fatal("idle connections keep a health check away")
	}
	if !ended(kept[0]) {
		t.Fatal("the longest idle connection was kept")
	}
	if !answered(kept[1]) {
		t.Fatal("more than one idle connection was closed")
	}
	s.places.awaitIdle(t, MaxConnections)

	// All at work: half a request each.
	var busy []net.Conn
	for range MaxConnections {
		c := dial()
		fmt.Fprint(c, request[:len(request)-1])
		busy = append(busy, c)
	}
	for deadline := time.Now().Add(30 * time.Second); answered(dial()); {
		if time.Now().After(deadline) {
			t.Fatalf("more than %d connections are served", MaxConnections)
		}
	}
	for i, c := range busy[:3] {
		fmt.Fprint(c, "\n")
		if ended(c) {
			t.Errorf("busy connection %d was closed", i)
		}
	}
}

// awaitIdle waits until n connections idle.
func (p *places) awaitIdle(t *testing.T, n int) {
	t.Helper()
	idle := func() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.idle) }
	for end := time.Now().Add(time.Minute); idle() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections idle, want %d", idle(), n)
		}
	}
}

func TestProfilesAreLimited(t *testing.T) {
	s := newServer(t, newFake())
	url, _ := listen(t, s)
	get := func(ctx context.Context, path string) int {
		r, _ := http.NewRequestWithContext(ctx, "GET", url+path, nil)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		a.Body.Close()
		return a.StatusCode
	}
	for path, want := range map[string]int{
		"/debug/pprof/profile?seconds=301": 400, "/debug/pprof/trace?seconds=0": 400, "/debug/pprof/mutex?seconds=x": 400,
		"/debug/pprof/trace?seconds=1": 200,
	} {
		if got := get(t.Context(), path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	for range maxProfiles {
		looking.Go(func() { // the question below may have the last place just then
			for get(ctx, "/debug/pprof/block?seconds=300") == http.StatusServiceUnavailable {
			}
		})
	}
	for deadline := time.Now().Add(30 * time.Second); get(t.Context(), "/debug/pprof/cmdline") != http.StatusServiceUnavailable; {
		if time.Now().After(deadline) {
			t.Fatalf("more than %d profiles at once", maxProfiles)
		}
	}
	if got := get(t.Context(), "/healthz"); got != 200 {
		t.Errorf("profiles keep a health check away: %d", got)
	}
	cancel()
	looking.Wait()
	for deadline := time.Now().Add(30 * time.Second); get(t.Context(), "/debug/pprof/cmdline") != 200; {
		if time.Now().After(deadline) {
			t.Fatal("a profile that was given up keeps its place")
		}
	}
}
