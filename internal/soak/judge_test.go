package soak

import (
	"fmt"
	"sync"
	"time"
)

// judge hears of every grant of the clients that come and go, and finds two
// holders and tokens that do not rise, by this process's clock alone.
type judge struct {
	mu     sync.Mutex
	floor  uint64 // the greatest token read
	keys   map[string]held
	wrong  []string
	counts map[string]int
}

// held is the last grant of a key.
type held struct {
	token  uint64
	until  time.Time // its lease has not ended before
	gaveUp bool      // its release is sent
}

func newJudge() *judge { return &judge{keys: map[string]held{}, counts: map[string]int{}} }

// object notes what is wrong; the first twenty are kept.
func (j *judge) object(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(format, args...)
}

func (j *judge) add(format string, args ...any) {
	j.counts["objections"]++
	if len(j.wrong) < 20 {
		j.wrong = append(j.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (j *judge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[what]++
}

// asks is called before an acquire is sent.
func (j *judge) asks() (floor uint64, sent time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.floor, time.Now()
}

// clockDrift is what two clocks may differ by: one in so many.
const clockDrift = 1000

// granted is called when an A was read.
func (j *judge) granted(key string, token, floor uint64, sent time.Time, lease time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if token <= floor {
		j.add("key %s: token %d for an attempt sent when %d had been read", key, token, floor)
	}
	j.floor = max(j.floor, token)
	last := j.keys[key]
	until := sent.Add(lease - lease/clockDrift)
	if token < last.token {
		return // read late, and over
	}
	if token == last.token || last.token != 0 && !last.gaveUp && now.Before(last.until) {
		j.add("key %s: token %d is granted while %d holds it", key, token, last.token)
	}
	j.keys[key] = held{token: token, until: until}
}

// givesUp is called before a release is sent. The token cannot have ended before
// until; that is zero when it is not the key's last.
func (j *judge) givesUp(key string, token uint64) (until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.keys[key]
	if h.token != token {
		return time.Time{}
	}
	h.gaveUp = true
	j.keys[key] = h
	return h.until
}
