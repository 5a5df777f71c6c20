package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// mostUnsent is how many replies a connection may leave unsent (§7).
const mostUnsent = 256

// inKernel is how many bytes the kernel holds that the server wrote and the
// client did not read: the send queue of the one end and the receive queue of
// the other.
func (p *peer) inKernel(t *testing.T) int {
	t.Helper()
	mine, its := p.conn.LocalAddr().(*net.TCPAddr), p.conn.RemoteAddr().(*net.TCPAddr)
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	local, remote := fmt.Sprintf(":%04X", mine.Port), fmt.Sprintf(":%04X", its.Port)
	sum := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.HasSuffix(fields[1], local) && !strings.HasSuffix(fields[2], local) {
			continue
		}
		var tx, rx int
		fmt.Sscanf(strings.ReplaceAll(fields[4], ":", " "), "%x %x", &tx, &rx)
		if strings.HasSuffix(fields[1], local) && strings.HasSuffix(fields[2], remote) {
			sum += rx
		} else if strings.HasSuffix(fields[1], remote) {
			sum += tx
		}
	}
	return sum
}

// clog sends releases, and reads nothing, until the kernel takes no more of
// the replies. It returns how many replies are there and how many of them the
// kernel has not taken, the one it took in part included. The server answered
// before releases of other connections.
func (s *server) clog(t *testing.T, p *peer, frame []byte, size, before int) (replies, unsent int) {
	t.Helper()
	for unsent == 0 {
		const step = mostUnsent / 2 // so that fewer than the most are unsent at last
		var b []byte
		for range step {
			b = append(b, frame...)
		}
		p.send(b)
		replies += step
		await(t, "the releases are answered", func() bool {
			return s.metrics(t).sum("ticketing_releases_total") == float64(before+replies)
		})
		// What is on its way counts at both ends, and what is to be written
		// is written in this turn: look until the number stays.
		held := p.inKernel(t)
		for stays := 0; stays < 3; {
			time.Sleep(3 * time.Millisecond)
			if now := p.inKernel(t); now == held && now <= replies*size {
				stays++
			} else {
				held, stays = now, 0
			}
		}
		unsent = (replies*size - held + size - 1) / size
	}
	return replies, unsent
}

// TestUnsentReplies: a client that reads nothing may leave 256 replies unsent;
// with one more its connection is closed.
func TestUnsentReplies(t *testing.T) {
	key := text(128)
	frame := release(1, key)
	const size = 138
	onLoops(t, func(t *testing.T, s *server) {
		before := 0
		for _, beyond := range []int{0, 1} {
			p, err := s.tryDial(t, 4096)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			replies, unsent := s.clog(t, p, frame, size, before)
			t.Logf("the kernel holds %d replies, %d are unsent", replies-unsent, unsent)
			for ; unsent < mostUnsent+beyond; unsent++ {
				p.send(frame)
				replies++
			}
			if beyond > 0 {
				s.awaitMetrics(t, samples{
					"ticketing_connections": 0,
					`ticketing_connections_closed_total{reason="slow_reader"}`: 1,
				})
				continue
			}
			s.awaitMetrics(t, samples{
				"ticketing_connections": 1,
				`ticketing_connections_closed_total{reason="slow_reader"}`: 0,
				`ticketing_releases_total{result="not_held"}`:              float64(replies),
			})
			for _, r := range p.collect(replies) { // it is slow, and nothing was lost
				if !r.is('N', 1, key) {
					t.Fatalf("got %v", r)
				}
			}
			p.close()
			before = replies
			await(t, "it has left", func() bool { return s.metrics(t)["ticketing_connections"] == 0 })
		}
	})
}

// TestNeverReads: many clients that write and never read are closed, and
// those that read are served all the while.
func TestNeverReads(t *testing.T) {
	const deaf = 40
	onLoops(t, func(t *testing.T, s *server) {
		before := s.footprint(t)
		stop := s.keepServing(t, 4)
		block := []byte{}
		for range 500 {
			block = append(block, release(1, text(128))...)
		}
		together(t, deaf, func(i int) error {
			p, err := s.tryDial(t, 4096)
			if err != nil {
				return err
			}
			defer p.close()
			for begin := time.Now(); time.Since(begin) < patience; {
				if err := p.write(block); err != nil {
					return nil
				}
			}
			return fmt.Errorf("a client that never reads was not closed")
		})
		stop()
		s.awaitMetrics(t, samples{
			"ticketing_connections": 0,
			`ticketing_connections_closed_total{reason="slow_reader"}`: deaf,
		})
		s.backTo(t, before)
	})
}
