package loop

import (
	"fmt"
	"sync"
	"time"

	"ticketing/codec"
	"ticketing/lease"
)

// judge knows what all clients of a server have sent and read, in the order in
// which they did, and finds what no server may answer. Its instants are of the
// server's own clock, read on the side that cannot wrong the server: before a
// request is sent, after a reply is read.
type judge struct {
	mu       sync.Mutex
	srv      *Server
	full     bool             // B is possible: the server's limits are within reach
	floor    uint64           // the greatest token read
	grants   map[uint64]grant // those read, by token
	keys     map[string][]uint64
	asked    map[ticket]int  // releases sent
	released map[ticket]bool // releases answered with R
	wrong    string          // the first thing that is
	changed  chan struct{}   // told when anything was read
}

// ticket is what a release names.
type ticket struct {
	token uint64
	key   string
}

// grant is an A that was read.
type grant struct {
	key   string
	since lease.Instant // its lease began then at the earliest
	ends  lease.Instant // and has not ended before
	read  lease.Instant
}

func newJudge(srv *Server, full bool) *judge {
	return &judge{
		srv: srv, full: full, grants: map[uint64]grant{}, keys: map[string][]uint64{},
		asked: map[ticket]int{}, released: map[ticket]bool{}, changed: make(chan struct{}, 1),
	}
}

// object notes what is wrong. The caller holds mu.
func (j *judge) object(format string, args ...any) {
	if j.wrong == "" {
		j.wrong = fmt.Sprintf(format, args...)
	}
}

func (j *judge) tell() {
	select {
	case j.changed <- struct{}{}:
	default:
	}
}

// await waits for what readers bring about, and returns false when something
// is wrong or it does not come about.
func (j *judge) await(what string, ok func() bool) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		j.mu.Lock()
		wrong, done := j.wrong != "", ok()
		j.mu.Unlock()
		if wrong || done {
			return !wrong
		}
		select {
		case <-j.changed:
		case <-late.C:
			j.mu.Lock()
			j.object("did not come about: %s", what)
			j.mu.Unlock()
			return false
		}
	}
}

// attempt is an acquire that was sent.
type attempt struct {
	owner       uint64
	key         string
	wait, lease uint8
	sent        lease.Instant
	floor       uint64 // the greatest token read by then
	outcome     codec.Op
}

// decided says that its outcome does not wait for anything.
func (a *attempt) decided() bool { return a.wait == 0 }

// giveUp is a release that was sent.
type giveUp struct {
	ticket
	live   bool // its token was known to hold the key, and nobody had sent a release
	answer codec.Op
}

// granted judges an A for a.
func (j *judge) granted(a *attempt, token uint64, vague bool) {
	g := grant{a.key, a.sent, a.sent.Add(lease.Seconds(a.lease)), j.srv.clock()}
	if token <= a.floor {
		j.object("token %d for owner %d, sent when %d had been read", token, a.owner, a.floor)
	}
	if other, ok := j.grants[token]; ok {
		j.object("token %d for %q and for %q", token, other.key, a.key)
	}
	if vague { // several attempts fit: the lease is that of any of them
		g.ends = g.since.Add(time.Second)
	}
	for _, other := range j.keys[a.key] {
		older, newer, held := other, g, j.grants[other]
		if other > token {
			older, newer, held = token, j.grants[other], g
		}
		if j.asked[ticket{older, a.key}] == 0 && newer.read < held.ends {
			j.object("key %q: token %d and token %d hold it at once", a.key, other, token)
		}
	}
	j.grants[token] = g
	j.keys[a.key] = append(j.keys[a.key], token)
	j.floor = max(j.floor, token)
}

// ended judges the answer to a release.
func (j *judge) ended(r *giveUp) {
	g, known := j.grants[r.token]
	switch r.answer {
	case codec.OpReleased:
		if j.released[r.ticket] {
			j.object("token %d released twice", r.token)
		}
		if known && g.key != r.key {
			j.object("token %d of %q released %q", r.token, g.key, r.key)
		}
		j.released[r.ticket] = true
	case codec.OpNotHeld:
		if r.live && j.asked[r.ticket] == 1 && j.srv.clock() < g.ends {
			j.object("token %d is not held before its lease has ended", r.token)
		}
	}
}
