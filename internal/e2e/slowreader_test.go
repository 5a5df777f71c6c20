package e2e

import (
	"fmt"
	"testing"
	"time"
)

// mostUnsent is how many replies a connection may leave unsent (§7).
const mostUnsent = 256

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

// TestSlowReaderGetsItsEnd: what was decided goes out before E and before the
// end, however slowly the client takes it: the second and the 64 KiB of §6
// bound what is discarded, not what is sent.
func TestSlowReaderGetsItsEnd(t *testing.T) {
	key := text(128)
	onLoopsParallel(t, func(t *testing.T, s *server) {
		answered := 0
		for _, c := range []struct {
			name, want string
			end        func(p *peer)
		}{
			{"an error", "Ebad_op\n", func(p *peer) { p.send([]byte("?")) }},
			{"a cut frame", "Ebad_request\n", func(p *peer) { p.send([]byte("A")); p.closeWrite() }},
			{"a half-close", "", (*peer).closeWrite},
		} {
			p, err := s.tryDial(t, 4096)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			replies, _ := s.clog(t, p, release(1, key), 138, answered)
			answered += replies
			c.end(p)
			time.Sleep(2 * time.Second)
			for i := range replies {
				r, err := p.next()
				if err != nil || !r.is('N', 1, key) {
					t.Errorf("%s: reply %d of %d: %v, %v", c.name, i+1, replies, r, err)
					break
				}
			}
			if err := p.wantEnd(c.want); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}
