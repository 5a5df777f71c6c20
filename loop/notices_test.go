package loop

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"ticketing/auth"
	"ticketing/codec"
	"ticketing/lease"
)

// logLines gathers a server's log, one JSON object a line.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// reasons are the notices there are, and how many ends each reason's stand for.
func (l *logLines) reasons(t *testing.T) (lines int, times map[string]int) {
	t.Helper()
	times = make(map[string]int)
	for line := range strings.Lines(l.text()) {
		var n struct {
			Msg, Reason, Client string
			Times               int
		}
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		if n.Msg == "connection ended by the server" {
			if !strings.HasPrefix(n.Client, "127.0.0.1:") {
				t.Errorf("%s: client %q", n.Reason, n.Client)
			}
			lines++
			times[n.Reason] += n.Times
		}
	}
	return lines, times
}

// One client that fails all the time does not keep the log from telling of
// another's reason, and does not fill it.
func TestNoticesAreThrottledByReason(t *testing.T) {
	secrets, err := auth.NewSecrets([]byte("hush"))
	if err != nil {
		t.Fatal(err)
	}
	log := &logLines{}
	srv := startServer(t, func(c *Config) {
		c.Secrets = secrets
		c.Logger = slog.New(slog.NewJSONHandler(log, nil))
	})
	const noisy = 200
	for range noisy {
		p := dial(t, srv)
		p.send([]byte("no such digest\n"))
		p.challenge()
		p.wantError("auth_failed")
		p.Close()
	}
	p := dial(t, srv)
	p.send(append(auth.AppendResponse(nil, []byte("hush"), p.challenge()), '?'))
	p.wantError("bad_op")
	lines, times := log.reasons(t)
	if times["bad_op"] != 1 {
		t.Errorf("bad_op was told %d times behind %d of auth_failed", times["bad_op"], noisy)
	}
	if times["auth_failed"] == 0 || lines > noisy/2 {
		t.Errorf("%d ends were told in %d lines", noisy, lines)
	}
	if strings.Contains(log.text(), "hush") || strings.Contains(log.text(), "no such digest") {
		t.Error("the log repeats what clients send")
	}
}

// challenge reads the server's first line.
func (p *peer) challenge() [auth.NonceSize]byte {
	p.t.Helper()
	line, err := p.r.ReadBytes('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	nonce, ok := auth.ParseChallenge(bytes.TrimSuffix(line, []byte{'\n'}))
	if !ok {
		p.t.Fatalf("%q is no challenge", line)
	}
	return nonce
}

// Every end is told once or counted, whatever the loops do at once.
func TestNoticesLoseNone(t *testing.T) {
	var n notices
	const each = 10000
	var told, workers = make(chan uint64, 4), 4
	for range workers {
		go func() {
			sum := uint64(0)
			for i := range each {
				if times, ok := n.allow(EndAuthFailed, lease.Instant(i+1)*lease.Instant(logInterval)/100); ok {
					sum += times
				}
			}
			told <- sum
		}()
	}
	sum := uint64(0)
	for range workers {
		sum += <-told
	}
	if sum += n[EndAuthFailed].kept.Load(); sum != each*uint64(workers) {
		t.Errorf("%d of %d ends are accounted for", sum, each*workers)
	}
	if _, ok := n.allow(EndSlowReader, 1); !ok {
		t.Error("the first of another reason is not told")
	}
	if _, ok := n.allow(EndSlowReader, 1+lease.Instant(logInterval)-1); ok {
		t.Error("a second one is told within the interval")
	}
	if times, ok := n.allow(EndSlowReader, 1+lease.Instant(logInterval)); !ok || times != 2 {
		t.Errorf("after the interval: %d, %v; want 2 told", times, ok)
	}
}

// What is not told costs nothing.
func TestKeptNoticesAllocateNothing(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(&logLines{}, nil)) })
	l := srv.loops[0]
	p := dial(t, srv)
	p.acquire(1, 0, 30, "k")
	p.want(codec.OpGranted)
	allocs := ask(srv.loops[0], func() float64 {
		s := &session{loop: l}
		srv.notices[EndAuthFailed].next.Store(int64(l.now) + int64(logInterval))
		return testing.AllocsPerRun(100, func() { l.notice(s, EndAuthFailed) })
	})
	if allocs != 0 {
		t.Errorf("%v allocations for an end that is not told", allocs)
	}
}
