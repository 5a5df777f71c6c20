package loop

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserved is how many descriptors a loop keeps for tails that come while the
// process can have no other.
const reserved = 16

// reserve is descriptors that are there since the start, so that what is due to a
// half-closed client does not depend on what there is at the time. A limit of
// open files is one of numbers, and theirs are low.
type reserve struct {
	null int   // takes no byte: the reading end of a pipe nobody writes to
	free []int // mean the same until they are needed
}

func newReserve() (r reserve, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return reserve{null: -1}, os.NewSyscallError("pipe", err)
	}
	_ = unix.Close(pipe[1])
	r.null = pipe[0]
	for range reserved {
		fd, err := unix.FcntlInt(uintptr(r.null), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return r, os.NewSyscallError("dup", err)
		}
		r.free = append(r.free, fd)
	}
	return r, nil
}

// dup returns a duplicate of fd, of the reserve's own when there is no other. It
// is to be given back.
func (r *reserve) dup(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if n := len(r.free); err != nil && n > 0 {
		// Nobody can take the number in between: it is never closed.
		if dup = r.free[n-1]; unix.Dup3(fd, dup, unix.O_CLOEXEC) == nil {
			r.free = r.free[:n-1]
			return dup, nil
		}
	}
	return dup, os.NewSyscallError("dup", err)
}

// giveBack closes what fd means, and keeps the number if the reserve is not whole.
func (r *reserve) giveBack(fd int) {
	if len(r.free) < reserved && unix.Dup3(r.null, fd, unix.O_CLOEXEC) == nil {
		r.free = append(r.free, fd)
		return
	}
	_ = unix.Close(fd)
}

func (r *reserve) close() {
	for _, fd := range r.free {
		_ = unix.Close(fd)
	}
	if r.null >= 0 {
		_ = unix.Close(r.null)
	}
}
