package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that controls this process, if any. The command under a
// lock is in a process group of its own, and only one group may read from the
// terminal and gets its signals: the one in the foreground.
//
// With all three standard files on a terminal the command is lent the
// foreground as it starts. Otherwise others may stand beside this process, as
// in "ticketing lock k -- make | less", which need it themselves: the command
// starts in the background, this process passes the terminal's signals on, and
// the command is lent the foreground when it is stopped for want of it.
type terminal struct {
	fd       int // -1: there is none
	own      int // the group of this process
	borrower int // the group that was lent the foreground; 0: none
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		fd = -1
	}
	return &terminal{fd: fd, own: unix.Getpgrp()}
}

// foreground returns the group that has the foreground; 0 without a terminal.
func (t *terminal) foreground() int {
	if t.fd < 0 {
		return 0
	}
	group, err := unix.IoctlGetUint32(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return int(group)
}

// offered reports whether the command is to start in the foreground.
func (t *terminal) offered() bool {
	for _, file := range []int{0, 1, 2} {
		if _, err := unix.IoctlGetTermios(file, unix.TCGETS); err != nil {
			return false
		}
	}
	return t.foreground() == t.own
}

// lend moves the foreground from this process's group to another.
func (t *terminal) lend(group int) {
	t.borrower = group
	if t.foreground() == t.own {
		t.move(group)
	}
}

// lendAgain does so after a shell has brought this process's group back.
func (t *terminal) lendAgain() {
	if t.borrower != 0 {
		t.lend(t.borrower)
	}
}

// takeBack undoes lend, unless a shell has moved the foreground meanwhile.
func (t *terminal) takeBack() {
	if t.borrower != 0 && t.foreground() == t.borrower {
		t.move(t.own)
	}
}

// move needs SIGTTOU to be ignored, since this process may be in the background
// itself. The command is started by then and does not inherit that.
func (t *terminal) move(group int) {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // it fails when the terminal is gone
}

// orphaned reports whether no shell is there that could continue this process's
// group once it is stopped (POSIX: an orphaned process group).
func (t *terminal) orphaned() bool {
	self, err := readProcess(os.Getpid())
	for err == nil {
		var parent processState
		if parent, err = readProcess(self.parent); err != nil || parent.session != self.session {
			break
		}
		if parent.group != self.group {
			return false
		}
		self = parent
	}
	return true
}
