package bench

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reads and writes here never block, so they are not announced to Go's scheduler:
// it would take the processor away from a thread that the kernel keeps a little
// longer, and give it to another, at each of them.

func read(fd int, b []byte) (int, error)  { return raw(unix.SYS_READ, fd, b) }
func write(fd int, b []byte) (int, error) { return raw(unix.SYS_WRITE, fd, b) }

func raw(call uintptr, fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// glance returns what is ready now. The six arguments are epoll_pwait's.
func glance(epoll int, events []unix.EpollEvent) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// restAfterGlance is for how many rounds no thread glances that found nothing.
const restAfterGlance = 16

// await returns how many events there are, after at most so many ms. A busy thread
// finds some at a glance.
func (w *worker) await(events []unix.EpollEvent, timeout int) (int, error) {
	if w.rest == 0 {
		if n := glance(w.epoll, events); n > 0 {
			return n, nil
		}
		w.rest = restAfterGlance
	}
	w.rest--
	return unix.EpollWait(w.epoll, events, timeout)
}
