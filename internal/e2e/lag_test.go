package e2e

import (
	"os/exec"
	"sync"
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

// slack is what an answer due at a moment may be late by.
func slack(due time.Time) time.Duration { return grace + 2*boxLag.since(due) }
