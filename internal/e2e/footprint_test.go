package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// footprint is what a server holds on to.
type footprint struct {
	goroutines, files int
	heap, rss         int // bytes
}

func (s *server) footprint(t testing.TB) footprint {
	t.Helper()
	s.get(t, "/debug/pprof/heap?gc=1") // collects garbage first
	m := s.metrics(t)
	f := footprint{
		goroutines: int(m["go_goroutines"]),
		heap:       int(m["go_memstats_heap_inuse_bytes"]),
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid()))
	if err != nil {
		t.Fatal(err)
	}
	f.files = len(fds)
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", s.pid()))
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			fmt.Sscan(rest, &f.rss)
			f.rss <<= 10
		}
	}
	return f
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d KiB of heap, %d KiB resident",
		f.goroutines, f.files, f.heap>>10, f.rss>>10)
}

// backTo wants the server to be nearly as small as it was, with every gauge
// at 0, a short while after all clients have left.
func (s *server) backTo(t testing.TB, before footprint) {
	t.Helper()
	var now footprint
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		now = s.footprint(t)
		if now.goroutines <= before.goroutines+8 && now.files <= before.files+4 &&
			now.heap <= before.heap+8<<20 && now.rss <= before.rss+96<<20 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("before: %v\nafterwards: %v", before, now)
			break
		}
	}
	t.Logf("before: %v; afterwards: %v", before, now)
	s.awaitMetrics(t, samples{
		"ticketing_connections": 0, "ticketing_waiters": 0,
		`ticketing_in_use{resource="connections"}`:           0,
		`ticketing_in_use{resource="waiters"}`:               0,
		`ticketing_in_use{resource="acquires_in_flight"}`:    0,
		`ticketing_in_use{resource="releases_in_flight"}`:    0,
		`ticketing_connections_closed_total{reason="panic"}`: 0,
	})
}

// keepServing runs well-behaved clients that take and return locks until the
// returned function is called, which wants them served without a gap.
func (s *server) keepServing(t testing.TB, clients int) (stop func()) {
	t.Helper()
	const gap = 5 * time.Second // no bound of the protocol: it finds a server that stalls
	done := make(chan struct{})
	errs := make(chan error, clients)
	var ready sync.WaitGroup
	for i := range clients {
		ready.Add(1)
		p := s.dial(t)
		go func() {
			errs <- func() error {
				defer p.close()
				key := fmt.Sprint("serving", i)
				for round := 0; ; round++ {
					select {
					case <-done:
						return nil
					case <-time.After(2 * time.Millisecond):
					}
					begin, o := time.Now(), newOwner()
					if err := p.write(acquire(o, 5, 30, key)); err != nil {
						return fmt.Errorf("a good client: %w", err)
					}
					r, err := p.want('A', o, key)
					if err != nil {
						return fmt.Errorf("a good client: %w", err)
					}
					if err := p.write(release(r.token, key)); err != nil {
						return fmt.Errorf("a good client: %w", err)
					}
					if r, err = p.want('R', r.token, key); err != nil {
						return fmt.Errorf("a good client: %w", err)
					}
					if d := r.at.Sub(begin); d > gap+slack(begin) {
						return fmt.Errorf("a good client was served after %v", d)
					}
					if round == 0 {
						ready.Done()
					}
				}
			}()
		}()
	}
	ready.Wait()
	return func() {
		t.Helper()
		close(done)
		for range clients {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}
