package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// watch stands over a command while it runs under a lock.
//
//	            the lease ends:                the grace time ends:
//	running ──── SIGTERM ────────▶ ending ──── SIGKILL ──────────────▶ killed
//	   │                              │                                  │
//	   │ the command ends             │ the whole group has ended        │ the command ends
//	   ▼                              ▼                                  ▼
//	 its exit status             exitLeaseEnded                    exitLeaseEnded
//
// Signals are passed on in each of them.
type watch struct {
	process  *process
	child    *child
	tty      *terminal
	signals  chan os.Signal
	key      string
	deadline time.Time // when the lease ends
	grace    time.Duration

	state watchState
	gone  bool             // the command has ended; others of its group may live
	kill  <-chan time.Time // fires when the grace time ends
}

type watchState uint8

const (
	watchRunning watchState = iota
	watchEnding
	watchKilled
)

// groupPoll is how often a group whose leader has ended is looked at while it
// has its grace time.
const groupPoll = 20 * time.Millisecond

// run returns when the command has ended and, if the lease ended before, when
// its group has too. The lease's end counts when the command still ran then.
func (w *watch) run() (status syscall.WaitStatus, leaseEnded bool) {
	lease := time.NewTimer(time.Until(w.deadline))
	defer lease.Stop()
	for !w.over() {
		var poll <-chan time.Time
		if w.gone {
			poll = time.After(groupPoll)
		}
		select {
		case e := <-w.child.events:
			if e.stopped == 0 {
				w.gone = true
			} else {
				w.stopped(e.stopped)
			}
		case s := <-w.signals:
			w.pass(s.(syscall.Signal))
		case <-lease.C:
			w.leaseEnds()
		case <-w.kill:
			w.state = watchKilled
			w.child.signal(syscall.SIGKILL)
		case <-poll:
		}
	}
	if w.state == watchEnding {
		w.child.signal(syscall.SIGKILL) // for who came into the group unseen
	}
	w.tty.takeBack()
	return w.child.reap(), w.state != watchRunning
}

func (w *watch) over() bool {
	return w.gone && (w.state != watchEnding || !othersIn(w.child.pid))
}

// leaseEnds tells the command to end, and wakes it up in case it is stopped.
func (w *watch) leaseEnds() {
	if w.state != watchRunning || w.child.ended() {
		return
	}
	w.state = watchEnding
	what := fmt.Sprintf("it gets SIGTERM, and SIGKILL after %v", w.grace)
	if err := w.child.signal(syscall.SIGTERM); err != nil {
		what = "it cannot be ended: " + err.Error()
	}
	w.child.signal(syscall.SIGCONT)
	w.kill = time.After(w.grace)
	w.process.complain(fmt.Errorf("the lease of %q has ended and CMD still runs: %s", w.key, what))
}

// pass hands a signal on to the command's group.
func (w *watch) pass(s syscall.Signal) {
	if s == syscall.SIGCONT {
		if !time.Now().Before(w.deadline) {
			w.leaseEnds() // while this process was stopped: the command must not go on
		}
		w.tty.lendAgain()
	}
	w.child.signal(s)
}

// stopped does what job control wants done when the command was stopped.
func (w *watch) stopped(by syscall.Signal) {
	foreground := w.tty.foreground()
	switch wants := by == syscall.SIGTTIN || by == syscall.SIGTTOU; {
	case foreground == 0:
		// No terminal, no shell: whoever stopped the command will continue it.
	case wants && (foreground == w.tty.own || foreground == w.child.pid):
		w.tty.lend(w.child.pid)
		w.child.signal(syscall.SIGCONT)
	case by == syscall.SIGSTOP:
	case !w.tty.orphaned():
		w.stopAlong()
	case !wants:
		w.child.signal(syscall.SIGCONT) // as the kernel spares an orphaned group
	}
}

// stopAlong stops this process's group, so that the shell sees a job that has
// stopped. SIGCONT is how the shell continues it. It is not SIGTSTP, which this
// process catches.
func (w *watch) stopAlong() {
	w.tty.takeBack()
	syscall.Kill(0, syscall.SIGSTOP)
}
