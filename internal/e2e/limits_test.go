package e2e

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
)

// turnedAway wants a connection that is closed with nothing sent.
func (p *peer) turnedAway() error {
	b, err := p.rest()
	if len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("got %q, %v from a server that is full", b, err)
	}
	return nil
}

// served says whether the server answers on this connection: false if it was
// closed with nothing sent.
func (p *peer) served(t *testing.T) bool {
	t.Helper()
	if p.write(release(0, "served")) != nil {
		return false
	}
	r, err := p.next()
	switch {
	case err == nil && r.is('N', 0, "served"):
		return true
	case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
		return false
	}
	t.Fatalf("got %v, %v", r, err)
	return false
}

// TestMaxConnections: exactly that many connections are served, the next is
// closed with nothing sent, and when one leaves one gets in.
func TestMaxConnections(t *testing.T) {
	for _, limit := range []int{1, 2, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			onLoops(t, func(t *testing.T, s *server) {
				peers := s.dials(t, limit)
				for i, p := range peers {
					if !p.served(t) {
						t.Fatalf("connection %d of %d was turned away", i+1, limit)
					}
				}
				for i := range 8 {
					for range 5 {
						if err := s.dial(t).turnedAway(); err != nil {
							t.Fatal(err)
						}
					}
					switch p := peers[i%limit]; i % 4 {
					case 0:
						p.close()
					case 1:
						p.reset()
					case 2:
						p.closeWrite()
					case 3:
						p.send([]byte("?"))
						p.ends("Ebad_op\n")
						p.close()
					}
					await(t, "one gets in when one has left", func() bool {
						p := s.dial(t)
						peers[i%limit] = p
						return p.served(t)
					})
				}
				for _, p := range peers { // nobody was pushed out
					p.quiet()
				}
			}, fmt.Sprint("MAX_CONNECTIONS=", limit))
		})
	}
}

// TestMaxConnectionsAtOnce: of many that dial at the same instant exactly the
// limit is served.
func TestMaxConnectionsAtOnce(t *testing.T) {
	const limit, dials = 50, 400
	onLoops(t, func(t *testing.T, s *server) {
		in := make(chan *peer, dials)
		together(t, dials, func(int) error {
			p, err := s.tryDial(t, 0)
			if err != nil {
				return err
			}
			if p.write(release(0, "k")) != nil {
				return nil
			}
			r, err := p.next()
			if err == nil && r.is('N', 0, "k") {
				in <- p
				return nil
			}
			if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
				return nil
			}
			return fmt.Errorf("got %v, %v", r, err)
		})
		if len(in) != limit {
			t.Errorf("%d connections were served, want %d", len(in), limit)
		}
		for range len(in) {
			p := <-in
			p.t = t
			p.quiet()
			p.close()
		}
		s.awaitMetrics(t, samples{"ticketing_connections": 0})
	}, fmt.Sprint("MAX_CONNECTIONS=", limit))
}
