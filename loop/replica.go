package loop

import "ticketing/shard"

// Replica is where a node of a cluster takes its decisions to: the replicated
// log. The server gives it turns; what becomes of them comes back through the
// server's own methods.
type Replica interface {
	// Submit takes a turn in. It is called on the goroutine of a loop and never
	// blocks. The turns of one loop come in the order of their Seq. A turn of an
	// epoch that is over is dropped.
	Submit(t shard.Turn)
}
