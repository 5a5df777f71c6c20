// Package procs sizes GOMAXPROCS for a process whose work is done by event
// loops: as many processors as loops while only loops work, and more while
// something else does.
//
// Why it matters: an event loop that finds nothing ready yields before it
// sleeps, and the Go scheduler takes every yield for a reason to wake a further
// thread if there is a processor without one. At one request at a time that
// thread, which finds nothing to do, is a fifth of the whole server's CPU.
// Without a spare processor nobody is woken. But then everything that is not a
// loop (accepting, HTTP, handshakes) would wait for a loop to sleep, so it
// announces itself and gets processors of its own for as long as it works.
//
// The package never looks at what the process does; loop and cmd/ticketing tell it.
package procs

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// quiet is how long after the last work the spare processors are kept: each
// change stops the world for some tens of microseconds.
const quiet = 200 * time.Millisecond

// Governor decides how many processors there are. A nil Governor leaves the
// number alone. Its methods may be called from any goroutine but an event loop's.
type Governor struct {
	few, many int // GOMAXPROCS with only the loops at work, and otherwise

	mu     sync.Mutex
	active int // callers between Enter and Leave
	raised bool
	lower  *time.Timer
}

// New returns a Governor for a process with that many event loops, and nil when
// the operator has chosen GOMAXPROCS. It starts with the spare processors there:
// the process that starts up is at work.
func New(loops int) *Governor {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	g := &Governor{few: loops, many: max(runtime.GOMAXPROCS(0), loops+1), raised: true}
	runtime.GOMAXPROCS(g.many)
	g.lower = time.AfterFunc(quiet, g.settle)
	return g
}

// Enter announces work that is not a loop's. Leave must follow.
func (g *Governor) Enter() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active++
	if !g.raised {
		g.raised = true
		runtime.GOMAXPROCS(g.many)
	}
}

// Leave ends what Enter began.
func (g *Governor) Leave() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	if g.active == 0 {
		g.lower.Reset(quiet)
	}
}

// Close leaves the process with the processors it would have without a Governor.
func (g *Governor) Close() {
	g.Enter() // for good
}

func (g *Governor) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == 0 && g.raised {
		g.raised = false
		runtime.GOMAXPROCS(g.few)
	}
}
