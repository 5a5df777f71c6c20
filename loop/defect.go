package loop

import (
	"fmt"
	"runtime/debug"
)

// breakDown ends the node of a cluster after a panic where shards decide. The
// shard may have changed by half, with or without a record of it, and the rest of
// the batch would never be answered. Nobody can tell what the shard holds now;
// what the others agreed on is not touched by it. So the node ends as in a crash:
// from here on no turn is submitted and nothing is said, and Serve returns.
//
// To lead anew from the log would do as well if only shards were in doubt, but the
// answers that wait and the budgets are too.
func (l *loop) breakDown(panicked any) {
	l.srv.broken.Store(true)
	l.srv.panics.Add(1)
	l.srv.log.Error("panic while deciding; the node stops", "loop", l.idx, "panic", panicked, "stack", string(debug.Stack()))
	err := fmt.Errorf("a defect of this program: loop %d panicked while it decided: %v; what it holds is in doubt, so this node "+
		"ends as in a crash and the others go on: start it again, and report the stack in the log", l.idx, panicked)
	select {
	case l.srv.defect <- err:
	default: // another loop was first
	}
}
