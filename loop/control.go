package loop

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ticketing/lease"
)

// A loop has two control connections: descriptors that are no sockets but that
// gnet polls for it like a client. One is a timerfd, armed for the loop's next
// deadline; one is an eventfd, written by whoever wants the loop's attention.
//
// gnet only enrols a net.Conn, so a real socket is made and the descriptor put
// in its place with dup3. The originals stay open until the engine has stopped:
// a late wake then writes into our eventfd and never into a reused descriptor.
type control struct {
	loop  *loop
	timer bool // the timerfd; otherwise the eventfd
}

// descriptor is an eventfd or timerfd of ours.
type descriptor struct{ fd int }

func newEventfd() (descriptor, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	return descriptor{fd}, os.NewSyscallError("eventfd", err)
}

func newTimerfd() (descriptor, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	return descriptor{fd}, os.NewSyscallError("timerfd_create", err)
}

func (d descriptor) close() { _ = unix.Close(d.fd) }

var one = [8]byte{1}

// wake makes the eventfd readable. It may be called from any goroutine.
func (d descriptor) wake() { _, _ = unix.Write(d.fd, one[:]) }

// arm sets the timerfd to the instant at, on the monotonic clock whose reading
// was base at Instant 0. An instant in the past fires at once.
func (d descriptor) arm(spec *unix.ItimerSpec, base int64, at lease.Instant) error {
	spec.Value = unix.NsecToTimespec(base + int64(at))
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(d.fd, unix.TFD_TIMER_ABSTIME, spec, nil))
}

// conn returns a connection whose descriptor is a duplicate of d.
func (d descriptor) conn() (net.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[1])
	f := os.NewFile(uintptr(pair[0]), "control")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err == nil {
		ctrlErr := raw.Control(func(fd uintptr) { err = unix.Dup3(d.fd, int(fd), unix.O_CLOEXEC) })
		if err == nil {
			err = ctrlErr
		}
	}
	if err != nil {
		c.Close()
		return nil, os.NewSyscallError("dup3", err)
	}
	return c, nil
}

// enrolment is what came of handing a connection to gnet.
type enrolment <-chan gnet.RegisteredResult

// bootTimeout bounds how long a loop may take to take its control connections.
const bootTimeout = 10 * time.Second

// wait returns the connection gnet made.
func (e enrolment) wait() (gnet.Conn, error) {
	select {
	case r, ok := <-e:
		if !ok {
			return nil, fmt.Errorf("the event loop gave no answer")
		}
		return r.Conn, r.Err
	case <-time.After(bootTimeout):
		return nil, fmt.Errorf("the event loop did not answer within %v", bootTimeout)
	}
}

// enrolControl puts d into the loop that el names; with el nil into the loop
// with the fewest connections, which at boot is the next one.
func enrolControl(cli *gnet.Client, el gnet.EventLoop, d descriptor, ctl *control) (gnet.Conn, error) {
	c, err := d.conn()
	if err != nil {
		return nil, err
	}
	if el == nil {
		return cli.EnrollContext(c, ctl)
	}
	ch, err := el.Enroll(gnet.NewContext(context.Background(), ctl), c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return enrolment(ch).wait()
}

// findEpolls returns, for each descriptor that an epoll instance of this process
// polls, the descriptor of that instance. gnet does not tell; the kernel does, in
// /proc/self/fdinfo.
func findEpolls() map[int]int {
	const dir = "/proc/self/fdinfo"
	epolls := make(map[int]int)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return epolls
	}
	for _, e := range entries {
		info, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			continue
		}
		epoll, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(info)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "tfd:" {
				if fd, err := strconv.Atoi(f[1]); err == nil {
					epolls[fd] = epoll
				}
			}
		}
	}
	return epolls
}
