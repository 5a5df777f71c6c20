package e2e

import (
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// inKernel is how many bytes the kernel holds that the server wrote and the
// client did not read: the send queue of the one end and the receive queue of
// the other.
func (p *peer) inKernel(t testing.TB) int {
	t.Helper()
	mine, its := p.conn.LocalAddr().(*net.TCPAddr), p.conn.RemoteAddr().(*net.TCPAddr)
	received, _ := queues(t, mine, its)
	_, unacknowledged := queues(t, its, mine)
	return received + unacknowledged
}

// queues asks the kernel for the two queues of one end of a connection
// (sock_diag(7); /proc/net/tcp knows them too, and takes 50 ms for a table of
// thousands of closed connections).
func queues(t testing.TB, local, remote *net.TCPAddr) (receive, send int) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatalf("sock_diag: %v", err)
		}
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	fail(err)
	defer unix.Close(fd)

	const header, request = 16, 56 // nlmsghdr, inet_diag_req_v2
	b := make([]byte, header+request)
	host := binary.NativeEndian
	host.PutUint32(b[0:], uint32(len(b)))
	host.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	host.PutUint16(b[6:], unix.NLM_F_REQUEST)
	r := b[header:]
	r[0], r[1] = unix.AF_INET, unix.IPPROTO_TCP
	host.PutUint32(r[4:], 0xffffffff) // in any state
	binary.BigEndian.PutUint16(r[8:], uint16(local.Port))
	binary.BigEndian.PutUint16(r[10:], uint16(remote.Port))
	copy(r[12:], local.IP.To4())
	copy(r[28:], remote.IP.To4())
	host.PutUint64(r[48:], 0xffffffff_ffffffff) // no cookie
	fail(unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))

	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	fail(err)
	const rqueue, wqueue = header + 56, header + 60 // in inet_diag_msg
	if n < wqueue+4 || host.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return 0, 0 // that end is gone
	}
	return int(host.Uint32(answer[rqueue:])), int(host.Uint32(answer[wqueue:]))
}
