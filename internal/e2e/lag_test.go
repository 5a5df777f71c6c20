package e2e

import (
	"sync"
	"time"
)

// grace is how much later than its deadline an answer may come: the 10 ms of
// §3.6, measured on a box that does other work as well.
const grace = 60 * time.Millisecond

// lagMeter knows how late this process itself was woken of late. Where the
// box is overloaded an answer is late through no fault of the server, and the
// same delay shows here.
type lagMeter struct {
	mu   sync.Mutex
	late []lagAt // in order of time; the last few minutes at most
}

type lagAt struct {
	at time.Time
	by time.Duration
}

var ownLag lagMeter

// watch sleeps for 2 ms again and again and notes every late wake-up.
func (m *lagMeter) watch() {
	const nap = 2 * time.Millisecond
	for {
		before := time.Now()
		time.Sleep(nap)
		if by := time.Since(before) - nap; by > 2*time.Millisecond {
			m.mu.Lock()
			m.late = append(m.late, lagAt{before, by})
			if len(m.late) > 200_000 {
				m.late = append(m.late[:0], m.late[100_000:]...)
			}
			m.mu.Unlock()
		}
	}
}

// since is the longest delay noted from a moment on.
func (m *lagMeter) since(from time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var most time.Duration
	for i := len(m.late) - 1; i >= 0; i-- {
		l := m.late[i]
		if l.at.Add(l.by).Before(from) {
			break
		}
		most = max(most, l.by)
	}
	return most
}

// slack is what an answer due after from may be late by.
func slack(from time.Time) time.Duration { return grace + 2*ownLag.since(from) }
