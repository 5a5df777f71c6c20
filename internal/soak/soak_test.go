package soak

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bounds of what the process may hold on to in the end, beyond the start.
const (
	moreGoroutines = 8
	moreFiles      = 4
	moreResident   = 64 << 20
)

// size is how much of a soak it is.
type size struct {
	length      time.Duration
	connections int // of the verified load
	guests      int // at once
	killed      int // processes at once
	every       int // rotations from one shortage of descriptors to the next
}

// TestSoak runs for SOAK, with thousands of connections; without it for some
// seconds, with hundreds. A server with TLS has a third of the load, at the same
// time.
func TestSoak(t *testing.T) {
	plain, encrypted := size{10 * time.Second, 130, 40, 1, 3}, size{10 * time.Second, 70, 20, 1, 3}
	if v := os.Getenv("SOAK"); v != "" {
		length, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal("SOAK: ", err)
		}
		plain, encrypted = size{length, 2000, 270, 2, 11}, size{length, 1000, 130, 2, 7}
	}
	binary := build(t)
	t.Run("servers", func(t *testing.T) {
		t.Run("plaintext", func(t *testing.T) { t.Parallel(); soak(t, binary, plain, false) })
		t.Run("TLS", func(t *testing.T) { t.Parallel(); soak(t, binary, encrypted, true) })
	})
}

// soak loads one server.
func soak(t *testing.T, binary string, n size, encrypted bool) {
	s := start(t, binary, 8000, encrypted)
	before, err := s.footprint()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start: %v", before)
	j := newJudge()
	ctx, cancel := context.WithTimeout(t.Context(), n.length)
	defer cancel()
	s.ctx = ctx
	var all sync.WaitGroup
	all.Go(func() { s.verified(ctx, j, n.connections) })
	for i := range n.killed {
		all.Go(func() { s.killed(ctx, j, uint64(i)) })
	}
	visitors := guests
	if encrypted {
		visitors = append(slices.Clip(guests), guest{"unshaken", 15, (*server).unshaken})
	}
	for _, g := range visitors {
		for i := range max(1, n.guests*g.share/100) {
			all.Go(func() { s.host(ctx, j, g.name, g.visit, uint64(i)) })
		}
	}
	all.Go(func() { s.disturb(ctx, j, n.every) })
	all.Go(func() { s.watch(ctx, j, t) })
	all.Wait()
	s.judgeEnd(t, before)
	if m, err := s.metrics(); err == nil {
		for name, v := range m {
			if reason, ok := strings.CutPrefix(name, "ticketing_connections_closed_total{"); ok && v > 0 {
				j.counts["closed by the server's account: "+reason] = int(v)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(j.counts)) {
		t.Logf("%7d %s", j.counts[what], what)
	}
	for _, wrong := range j.wrong {
		t.Error(wrong)
	}
	if t.Failed() {
		log := s.log.String()
		t.Logf("the server's log ends:\n%s", log[max(0, len(log)-20000):])
	}
}

// disturb exchanges secrets and certificates, and every so often takes descriptors
// away.
func (s *server) disturb(ctx context.Context, j *judge, every int) {
	for n := 1; pause(ctx, 2*time.Second); n++ {
		err := s.rotate(n)
		if err == nil {
			err = s.rotated(n)
		}
		if err != nil {
			j.object("rotation %d: %v", n, err)
		}
		j.count("rotations")
		if n%every == every-1 && s.loaded.Load() {
			if err := s.starve(ctx, uint64(n%5), 1500*time.Millisecond); err != nil {
				j.object("prlimit: %v", err)
			}
			j.count("shortages of descriptors")
		}
	}
}

// watch reads what the server tells of itself, and shows some of it.
func (s *server) watch(ctx context.Context, j *judge, t *testing.T) {
	begin, shown := time.Now(), time.Now()
	for pause(ctx, time.Second) {
		m, err := s.metrics()
		if err != nil {
			select {
			case <-s.exited:
				j.object("the server has ended: %v", s.cmd.ProcessState)
				return
			default:
			}
			j.count("scrapes that failed") // the admin endpoint needs a descriptor too
			continue
		}
		j.count("scrapes")
		for _, r := range []string{"connections", "waiters", "keys", "acquires_in_flight", "releases_in_flight"} {
			used, limit := m[`ticketing_in_use{resource="`+r+`"}`], m[`ticketing_limit{resource="`+r+`"}`]
			if used < 0 || limit == 0 || used > limit {
				j.object("%v of %v %s are in use", used, limit, r)
			}
		}
		if time.Since(shown) >= 10*time.Second {
			shown = time.Now()
			t.Logf("%v: %.0f connections, %.0f waiters, %.0f keys, %.0f goroutines, %.0f MiB resident, %.0f granted; %d objections",
				time.Since(begin).Round(time.Second), m["ticketing_connections"], m["ticketing_waiters"], m["ticketing_keys"],
				m["go_goroutines"], m["process_resident_memory_bytes"]/(1<<20), m[`ticketing_acquires_total{result="granted"}`], j.objections())
		}
	}
}

func (j *judge) objections() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts["objections"]
}

// judgeEnd wants the process to be as at the start, all clients being gone.
func (s *server) judgeEnd(t *testing.T, before footprint) {
	var left string
	var now footprint
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		m, err := s.metrics()
		if err != nil {
			t.Fatal(err)
		}
		left = ""
		for name, v := range m {
			switch {
			case strings.HasPrefix(name, "ticketing_in_use{"), name == "ticketing_connections", name == "ticketing_waiters",
				name == "ticketing_keys", strings.HasPrefix(name, "ticketing_loop_connections"):
				if v != 0 {
					left += fmt.Sprintf(" %s=%v", name, v)
				}
			case strings.HasPrefix(name, "ticketing_admission_open"):
				if v != 1 {
					left += fmt.Sprintf(" %s=%v", name, v)
				}
			case name == "ticketing_panics_total", name == "ticketing_admin_panics_total":
				if v != 0 {
					t.Fatalf("%s is %v", name, v)
				}
			}
		}
		if now, err = s.footprint(); err != nil {
			t.Fatal(err)
		}
		small := now.goroutines <= before.goroutines+moreGoroutines && now.files <= before.files+moreFiles &&
			now.rss <= before.rss+moreResident
		if small && left == "" {
			break
		}
		if time.Now().After(end) {
			t.Errorf("not as at the start: %v, then %v;%s", before, now, left)
			break
		}
	}
	t.Logf("end: %v", now)
	for _, bad := range []string{"panic", "DATA RACE", "fatal error", "goroutine ", secret} {
		if strings.Contains(s.log.String(), bad) {
			t.Errorf("the server logged %q", bad)
		}
	}
}
