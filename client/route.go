package client

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"ticketing/codec"
)

// route decides which server is connected to next, and when. It is under the
// client's lock.
type route struct {
	addrs    []string // as configured
	target   string   // where sessions are opened; not of addrs when an M or L named it
	place    int      // of addrs: the last one tried
	turn     int      // counts misses and changes of target: what began in an earlier turn teaches nothing new
	misses   int      // connections in a row that came to nothing
	refusals int      // of those, the last ones in a row that only other settings cure
	steers   int      // M and L in a row
	steered  bool     // the target was named by an M or L
	election int      // the round, from 1, in which it showed that the leader is missing; 0: it has not, since there was service
	reason   error    // why the last connection came to nothing; what is under way when none has yet
	failed   bool     // reason is a failure
}

func (r *route) init(addrs []string) { r.addrs, r.target = addrs, addrs[0] }

// delay is how long the next connection waits: nothing until every address had
// its try, then doubling by the round, with the upper half random.
func (r *route) delay() time.Duration {
	round := r.round()
	if round == 0 {
		return 0
	}
	d := backoffMax
	if r.election != 0 && round < r.election+electionRounds {
		d = backoffElection
	}
	if round <= 6 {
		d = min(d, backoffMin<<(round-1))
	}
	return d/2 + rand.N(d/2)
}

// round counts the rounds without service.
func (r *route) round() int { return r.misses/len(r.addrs) + max(0, r.steers-freeSteers) }

// miss notes that a connection begun in that turn came to nothing and moves on
// to the next address, unless another one of the same turn did so already.
func (r *route) miss(turn int, err error) {
	if turn != r.turn {
		return
	}
	r.turn++
	r.misses++
	if r.election == 0 && (r.steered || isNoLeader(err)) {
		r.election = 1 + r.round()
	}
	r.steered = false
	if isRefusal(err) {
		r.refusals++
	} else {
		r.refusals = 0
	}
	r.fail(err)
	r.place = (r.place + 1) % len(r.addrs)
	r.point(r.addrs[r.place])
}

// steer follows an M or L and reports whether that leads anywhere.
func (r *route) steer(from, to string) bool {
	if from != r.target {
		return true // another session's word came first
	}
	if to == from || checkAddr(to) != nil {
		return false
	}
	r.steers++
	r.steered = true
	if i := slices.Index(r.addrs, to); i >= 0 {
		r.place = i
	}
	r.point(to)
	return true
}

func (r *route) point(addr string) {
	if addr != r.target {
		r.target = addr
		r.turn++
	}
}

func (r *route) fail(err error) { r.reason, r.failed = err, true }

// proved notes that the target answers requests.
func (r *route) proved() {
	r.misses, r.refusals, r.steers, r.election = 0, 0, 0, 0
	r.steered = false
	r.reason, r.failed = nil, false
}

// isNoLeader reports whether a server said that no leader is known.
func isNoLeader(err error) bool {
	server, ok := errors.AsType[*ServerError](err)
	return ok && server.Reason == codec.ReasonNoLeader.String()
}

// refused reports whether every server has refused this client for good.
func (r *route) refused() bool { return r.refusals >= refusalRounds*len(r.addrs) }
