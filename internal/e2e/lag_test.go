package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// grace is how much later than its deadline an answer may come: the 10 ms of
// §3.6, measured on a box that does other work as well.
const grace = 60 * time.Millisecond

// lagMeter knows how slow the box itself was of late. A process that only
// echoes a byte stands for a server that takes no time: by what its echo was
// late, no server is to be blamed.
type lagMeter struct {
	mu    sync.Mutex
	late  []lagAt   // in order of time; the last few minutes at most
	asked time.Time // when the echo that is still to come was asked for; zero if none is
}

type lagAt struct {
	at time.Time // when the echo was asked for
	by time.Duration
}

var boxLag lagMeter

// watch asks for an echo every few milliseconds, until the process ends.
func (m *lagMeter) watch() error {
	echo := exec.Command("cat")
	in, err := echo.StdinPipe()
	if err != nil {
		return err
	}
	out, err := echo.StdoutPipe()
	if err != nil {
		return err
	}
	if err := echo.Start(); err != nil {
		return err
	}
	go func() {
		const nap = 2 * time.Millisecond
		b := []byte{0}
		for {
			m.mu.Lock()
			m.asked = time.Now()
			m.mu.Unlock()
			time.Sleep(nap)
			if _, err := in.Write(b); err != nil {
				return
			}
			if _, err := out.Read(b); err != nil {
				return
			}
			m.mu.Lock()
			if by := time.Since(m.asked) - nap; by > 2*time.Millisecond {
				m.late = append(m.late, lagAt{m.asked, by})
				if len(m.late) > 200_000 {
					m.late = append(m.late[:0], m.late[100_000:]...)
				}
			}
			m.asked = time.Time{}
			m.mu.Unlock()
		}
	}()
	return nil
}

// since is the longest delay from a moment on, the one that lasts included.
func (m *lagMeter) since(from time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var most time.Duration
	if !m.asked.IsZero() {
		most = time.Since(m.asked)
	}
	for i := len(m.late) - 1; i >= 0; i-- {
		l := m.late[i]
		if l.at.Add(l.by).Before(from) {
			break
		}
		most = max(most, l.by)
	}
	return most
}

// slack is what an answer due at a moment may be late by. On a box that is
// itself later than the grace, little can be said: delays add up at both ends.
func slack(due time.Time) time.Duration {
	lag := boxLag.since(due)
	if lag > grace {
		return grace + 10*lag
	}
	return grace + 2*lag
}

// starvation knows how long the threads of a process stood in the kernel's
// queue, ready to run: a late answer of a process that gets no processor says
// nothing about it.
type starvation struct {
	mu      sync.Mutex
	samples []starvedAt
}

type starvedAt struct {
	at  time.Time
	sum time.Duration // over all threads, since they began
}

// watchStarvation samples a server until the test is over. It costs a tenth of
// a processor: it is for the tests that judge lateness.
func (s *server) watchStarvation(t testing.TB) {
	s.starved = &starvation{}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			sum, now := s.runDelay(), time.Now()
			s.starved.mu.Lock()
			s.starved.samples = append(s.starved.samples, starvedAt{now, sum})
			s.starved.mu.Unlock()
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
}

// runDelay is what proc(5) has in the second field of schedstat.
func (s *server) runDelay() (sum time.Duration) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.pid()))
	for _, path := range tasks {
		b, _ := os.ReadFile(path)
		var ran, waited int64
		fmt.Sscan(string(b), &ran, &waited)
		sum += time.Duration(waited)
	}
	return sum
}

// slack is what an answer of this server may be late by.
func (s *server) slack(due time.Time) time.Duration {
	most := slack(due)
	if s.starved == nil {
		return most
	}
	now := s.runDelay()
	s.starved.mu.Lock()
	defer s.starved.mu.Unlock()
	for i := len(s.starved.samples) - 1; i >= 0; i-- {
		if l := s.starved.samples[i]; l.at.Before(due) {
			return most + now - l.sum
		}
	}
	return most
}
