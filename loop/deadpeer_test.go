package loop

import (
	"testing"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// Whoever is gone without a word is found by TCP: 15 s of silence, then four
// questions 15 s apart, and 60 s for what was sent (§1.7). Here it is looked at
// whether the kernel was told so for a connection that is served.
func TestDeadPeersAreFound(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	p := dial(t, srv)
	p.release(1, "k")
	p.want(codec.OpNotHeld)
	l := srv.loops[0]
	got := ask(l, func() (got [6]int) {
		for i := range l.slots {
			if s := l.slots[i].session; s != nil {
				for j, o := range [][2]int{
					{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
					{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
					{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}, {unix.IPPROTO_TCP, unix.TCP_NODELAY},
				} {
					got[j], _ = unix.GetsockoptInt(s.conn.Fd(), o[0], o[1])
				}
			}
		}
		return got
	})
	if want := [6]int{1, 15, 15, 4, 60000, 1}; got != want {
		t.Errorf("keep-alive, idle, interval, count, user timeout, no delay: %v, want %v", got, want)
	}
}
