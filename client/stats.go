package client

import "sync/atomic"

// Stats is a snapshot of a client. Its fields are read one after another while
// calls go on, so they fit together only when the client is at rest.
type Stats struct {
	InFlight  int // calls that may have been sent and are unanswered, somebody still waiting or not given up
	Queued    int // calls that are certainly unsent
	Abandoned int // attempts whose caller has left; what is still granted to them is given back
	Sessions  int // open connections

	Connects  uint64 // connections that became sessions, since New
	Writes    uint64 // calls of Write by sessions
	Frames    uint64 // requests in them: Frames/Writes is how well they are batched
	Unmatched uint64 // replies that answered nothing

	CompensationsQueued  int    // releases of grants that were not handed out, not sent yet (§3.3)
	CompensationsSent    uint64 // those that were sent, each once
	CompensationsDropped uint64 // those that never were: the lease returns the key
}

// counters are the parts of Stats that nothing else needs.
type counters struct {
	connects, writes, frames, unmatched atomic.Uint64
}

// Stats returns how the client is doing. It is cheap, and may be called after
// Close.
func (c *Client) Stats() Stats {
	st := Stats{
		Connects:             c.counts.connects.Load(),
		Writes:               c.counts.writes.Load(),
		Frames:               c.counts.frames.Load(),
		Unmatched:            c.counts.unmatched.Load(),
		CompensationsQueued:  int(c.comp.waiting.Load()),
		CompensationsSent:    c.comp.sent.Load(),
		CompensationsDropped: c.comp.dropped.Load(),
	}
	c.mu.Lock()
	st.Queued = max(0, c.queue.len()-c.queue.dropped)
	st.Sessions = len(c.all)
	sessions := c.sessionsLocked()
	c.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		st.InFlight += s.live
		st.Abandoned += s.abandoned
		s.mu.Unlock()
	}
	return st
}
