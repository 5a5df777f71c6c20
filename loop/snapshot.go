package loop

import (
	"time"

	"ticketing/shard"
)

// EndReason says why a session ended; it labels ticketing_connections_closed_total.
type EndReason uint8

// Every way a session can end. Reasons that carry an E frame are named after
// the word of §6 that was sent.
const (
	EndClient           EndReason = iota // the client closed, between frames
	EndReset                             // the connection broke (RST, keep-alive, write error)
	EndBadOp                             // E bad_op
	EndBadRequest                        // E bad_request
	EndBadLease                          // E bad_lease
	EndBadKey                            // E bad_key
	EndLineTooLong                       // E line_too_long
	EndAuthFailed                        // E auth_failed
	EndShuttingDown                      // E shutting_down
	EndHandshakeTimeout                  // no session within 10 s (§8.5)
	EndSlowReader                        // more than 256 unsent replies (§7)
	EndBacklog                           // blocked behind the release lane with too much input
	EndPlaintext                         // it did not speak TLS on a TLS port
	EndTLS                               // the TLS handshake failed, or its TLS broke
	EndPanic                             // a defect of ours, recovered at the callback's edge
	EndMoved                             // M: another node leads (§9)
	EndLeadershipLost                    // L, or nothing where no leader came to be known (§9)
	EndNoLeader                          // E no_leader (§9)
	EndReasons                           // how many there are
)

var endReasonNames = [EndReasons]string{
	"client", "reset", "bad_op", "bad_request", "bad_lease", "bad_key", "line_too_long", "auth_failed",
	"shutting_down", "handshake_timeout", "slow_reader", "backlog", "plaintext", "tls", "panic",
	"moved", "leadership_lost", "no_leader",
}

// String returns the label value of the reason.
func (r EndReason) String() string { return endReasonNames[r] }

// Gauge is one row of §7: how much of a limit is in use.
type Gauge struct {
	Name  string `json:"name"` // as in metrics: waiters, keys, acquires_in_flight, releases_in_flight, connections
	Used  int    `json:"used"`
	Limit int    `json:"limit"`
	Open  bool   `json:"open"` // false: the admission is closed and attempts are refused
}

// LoopSnapshot is what one loop last published about itself and its shard.
type LoopSnapshot struct {
	Connections  int // live sessions of this loop
	Keys         int // entries in the shard's table
	Waiters      int // attempts parked in the shard
	Unconfirmed  int // turns given to the replicated log whose answers are withheld; 0 on a single node
	Shard        shard.Counters
	Ended        [EndReasons]uint64 // sessions ended, by reason
	BusyInFlight uint64             // acquires refused because the in-flight admission was closed
	Queues       []shard.Queue      // the longest queues, only when asked for
	At           time.Time          // when the loop published this
}

// TLSSnapshot is what there is to know about TLS handshakes, which no loop sees.
type TLSSnapshot struct {
	Handshakes int                // under way
	Full       uint64             // handshakes made in full
	Resumed    uint64             // handshakes that resumed a session of before
	Ended      [EndReasons]uint64 // connections that ended in their handshake, by reason
	NotAfter   time.Time          // when the certificate ends
}

// Snapshot is the whole server as its loops last published it. Reading one
// never makes a loop wait: the loops publish, the reader adds up.
type Snapshot struct {
	Started      time.Time
	Ready        bool
	Draining     bool
	Epoch        uint64 // of the lead, on the node that leads a cluster; else 0
	Loops        []LoopSnapshot
	Gauges       []Gauge      // every row of §7 with a use and a limit
	MaxWaiters   int          // limit of waiters per key
	Accepted     uint64       // connections accepted and served
	Refused      uint64       // connections closed at once because MAX_CONNECTIONS were there
	AcceptErrors uint64       // accept(2) failures: out of file descriptors and the like
	TLS          *TLSSnapshot // nil without TLS
	Panics       uint64       // panics of ours that cost one session each
}
