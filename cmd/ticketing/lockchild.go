package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is the process under a lock and the process group it leads.
//
// When it has ended it stays a zombie until reap. So its number is not given to
// another process, and a signal for the group never meets a stranger.
type child struct {
	pid    int // of the process, and of the group
	events chan event
}

// event is a change of the process. Its end is the last one.
type event struct {
	stopped syscall.Signal // by which signal it was stopped; 0: it has ended
}

// startChild runs the program. Its standard files are those of this process,
// and so are all others that this process was given.
func startChild(path string, argv, environ []string, tty *terminal) (*child, error) {
	attr := &syscall.ProcAttr{
		Env:   environ,
		Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{
			Setpgid: true,
			// Should this process be killed, nobody would end the command with
			// the lease. SIGKILL, since what may be caught may be ignored.
			Pdeathsig: syscall.SIGKILL,
		},
	}
	if tty.offered() {
		attr.Sys.Foreground, attr.Sys.Ctty = true, tty.fd
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		if attr.Sys.Foreground {
			tty.move(tty.own) // the group that has it is gone
		}
		return nil, err
	}
	if attr.Sys.Foreground {
		tty.borrower = pid
	}
	c := &child{pid: pid, events: make(chan event)}
	go c.wait()
	return c, nil
}

// signal sends s to every process of the group. It fails only when none of them
// may be told, as when they run for another user.
func (c *child) signal(s syscall.Signal) error { return syscall.Kill(-c.pid, s) }

// wait tells of stops and of the end.
func (c *child) wait() {
	for {
		info := c.waitid(unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT)
		if info.code != cldStopped {
			c.events <- event{}
			return
		}
		// Only this takes the stop off the kernel's list.
		if info = c.waitid(unix.WSTOPPED | unix.WNOHANG); info.pid != 0 {
			c.events <- event{stopped: syscall.Signal(info.status)}
		}
	}
}

// ended reports whether the process has ended, whatever wait has told so far.
func (c *child) ended() bool {
	return c.waitid(unix.WEXITED|unix.WNOHANG|unix.WNOWAIT).pid != 0
}

// reap returns how the process ended. From here on its number is anybody's.
func (c *child) reap() syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(c.pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}

// cldStopped is CLD_STOPPED of waitid(2).
const cldStopped = 5

// childInfo is what waitid(2) fills in of a siginfo_t.
type childInfo struct {
	signo, errno, code int32
	_                  [0]uintptr // what follows is aligned as a pointer is
	pid, uid, status   int32
	_                  [128]byte // more than the rest
}

func (c *child) waitid(options int) *childInfo {
	for {
		var info childInfo
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, unix.P_PID, uintptr(c.pid), uintptr(unsafe.Pointer(&info)), uintptr(options), 0, 0)
		switch err {
		case 0:
			return &info
		case syscall.EINTR:
		default:
			panic(os.NewSyscallError("waitid", err)) // a child of ours that nobody else waits for
		}
	}
}
