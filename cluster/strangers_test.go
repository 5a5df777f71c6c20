package cluster

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// Whoever reaches the port for other nodes and says nothing takes no more than
// MaxStrangers descriptors, and who has something to say is heard beside it. One
// node is enough for that, and has nobody to lose the lead to.
func TestSilentPeersAreFew(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"plaintext", "TLS"} {
		t.Run(with, func(t *testing.T) {
			t.Parallel()
			var change []func(*Config)
			if with == "TLS" {
				change = append(change, newAuthority(t).give)
			}
			n := newRig(t, 1, change...).leader()
			client, err := newClient(&n.cfg)
			if err != nil {
				t.Fatal(err)
			}
			client.Timeout = 20 * time.Second
			// A machine that stands still makes it look as if nobody were closed.
			for attempt := 1; ; attempt++ {
				closed := silence(t, n.cfg.listen(), func() {
					if _, err := ask(t.Context(), client, n.cfg.scheme()+"://"+n.cfg.listen(), n.hello()); err != nil {
						t.Errorf("beside them: %v", err)
					}
				})
				if closed >= 3*MaxStrangers {
					break
				}
				if attempt == 3 {
					t.Fatalf("of %d connections that say nothing %d were closed, and not %d", 4*MaxStrangers, closed, 3*MaxStrangers)
				}
			}
		})
	}
}

// silence opens four times as many connections as there may be, says nothing, and
// returns how many of the older ones are closed before their time to speak is over. Beside them it calls f.
func silence(t *testing.T, addr string, f func()) (closed int) {
	t.Helper()
	var conns []net.Conn
	for range 4 * MaxStrangers {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	until := time.Now().Add(4 * time.Second)
	f()
	for _, c := range conns[:3*MaxStrangers] {
		c.SetReadDeadline(until)
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	return closed
}
