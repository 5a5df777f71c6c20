package deploy

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait to be accepted by the server: what
// the kernel says of a duplicate of its listening socket.
func (n *node) backlog(t *testing.T) int {
	t.Helper()
	pid := n.cmd.Process.Pid
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue
		}
		listens, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		addr, _ := unix.Getsockname(fd)
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		unix.Close(fd)
		if in4, ok := addr.(*unix.SockaddrInet4); ok && listens == 1 && err == nil {
			if netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port)).String() == n.client {
				return int(info.Sacked) // of a listening socket: the length of its queue
			}
		}
	}
	t.Fatalf("no descriptor of %d listens on %s", pid, n.client)
	return 0
}

func somaxconn(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
