package loop

import (
	"sync/atomic"
	"time"

	"ticketing/lease"
	"ticketing/shard"
)

// Replica is where a node of a cluster takes its decisions to: the replicated
// log. The server gives it turns; what becomes of them comes back through the
// server's Confirm and Depose.
type Replica interface {
	// Submit takes a turn in. It is called on the goroutine of a loop and never
	// blocks. The turns of one loop come in the order of their Seq. A turn of an
	// epoch that is over is dropped.
	Submit(t shard.Turn)
}

// replicated is what a loop has to do with the log; nil on a single node.
//
// What its shard decides is speculative until the log has committed it, so the
// answers are withheld on the shard's loop, in the order of the turns that made
// them, and go to their sessions when their turn is confirmed (withheld.go).
// When the lead is lost before that, deposed.go says what they become.
type replicated struct {
	epoch    uint64 // of the lead under which requests are taken; 0: this node does not lead
	deciding uint64 // of the lead under which the shard decides; set before epoch, on every loop first
	leader   string // client address of the leader, when that is another node; empty: not known

	// Withheld.
	seq   uint64     // of the turn submitted last
	open  heldTurn   // what this turn has withheld so far
	read  bool       // some of it needs proof that this node leads
	turns []heldTurn // from head on: submitted and not confirmed
	head  int
	told  []*batch // by loop: outcomes of waits that gather
	spare [][]byte // memory for records

	// Deposed.
	deposing  bool          // since this loop gave up its shard, until all have
	markers   int           // loops known to have given up theirs
	lostUntil lease.Instant // how long those owed an L wait for the leader's address; Never until it is known who they are
	patience  time.Duration // how long others wait for it

	// Any goroutine.
	confirmed atomic.Uint64 // turns numbered up to this are confirmed
	news      atomic.Bool   // confirmed may have changed since it was looked at
}

// heldTurn is a turn whose answers are withheld.
type heldTurn struct {
	seq         uint64
	grants      uint64 // of the shard, by its end
	first, last *batch // in the order of decision, linked by next
	records     []byte // the replica's until the turn is confirmed
}

func newReplicated(loops int) *replicated {
	return &replicated{told: make([]*batch, loops), lostUntil: lease.Never, patience: movedPatience}
}

// leads reports whether l takes requests.
func (l *loop) leads() bool { return l.replicated == nil || l.replicated.epoch != 0 }
