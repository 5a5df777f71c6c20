package e2e

import (
	"testing"
	"time"
)

// handshakeTime is how long a handshake may take from accept (§8.5).
const handshakeTime = 10 * time.Second

// TestHandshakeTimeout runs every way to be slow side by side: the connection
// is closed after 10 s with nothing sent.
func TestHandshakeTimeout(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		for name, dawdle := range map[string]func(p *peer, nonce string){
			"silent":          func(p *peer, nonce string) {},
			"half a digest":   func(p *peer, nonce string) { p.write([]byte(digest(secret, nonce)[:20])) },
			"all but newline": func(p *peer, nonce string) { p.write([]byte(digest(secret, nonce))) },
			"255 bytes":       func(p *peer, nonce string) { p.write([]byte(text(255))) },
			"dribbled": func(p *peer, nonce string) {
				for _, b := range []byte(digest(secret, nonce)) {
					if p.write([]byte{b}) != nil {
						return
					}
					time.Sleep(300 * time.Millisecond) // 43 of them are too many
				}
			},
		} {
			t.Run(tight(name), func(t *testing.T) {
				t.Parallel()
				dialled := time.Now()
				p, nonce := s.challenged(t)
				challenged := time.Now()
				go dawdle(p, nonce)
				if err := p.turnedAway(); err != nil { // an RST if a byte came late
					t.Fatal(err)
				}
				if d := time.Since(dialled); d < handshakeTime {
					t.Errorf("closed after %v", d)
				}
				if d := time.Since(challenged); d > handshakeTime+soon+slack(challenged) {
					t.Errorf("closed only after %v", d)
				}
			})
		}
		t.Run("just_in_time", func(t *testing.T) {
			t.Parallel()
			p, nonce := s.challenged(t)
			time.Sleep(handshakeTime - 2*time.Second)
			p.send([]byte(digest(secret, nonce) + "\n"))
			p.quiet()
			time.Sleep(4 * time.Second) // no clock of the handshake runs on
			p.quiet()
		})
		t.Run("progress_timeout_begins_behind_it", func(t *testing.T) {
			t.Parallel()
			p, nonce := s.challenged(t)
			time.Sleep(3 * time.Second)
			sent, wrote, err := p.timedWrite([]byte(digest(secret, nonce) + "\nA"))
			if err == nil {
				err = p.timesOut(sent, wrote)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}, "AUTH_SECRET="+secret)
}

// TestHandshakeEnds: a client that leaves in its handshake is no trouble, and
// one that is in it counts as a connection.
func TestHandshakeEnds(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for i := range 30 {
			p, nonce := s.challenged(t)
			switch i % 5 {
			case 0:
				p.close()
			case 1:
				p.reset()
			case 2:
				p.closeWrite()
				p.rest()
			case 3:
				p.send([]byte(digest(secret, nonce)[:i]))
				p.closeWrite()
				p.rest()
			case 4:
				p.send([]byte(digest(secret, nonce) + "\n"))
				p.closeWrite()
				p.ends("")
			}
			p.close()
		}
		s.awaitMetrics(t, samples{"ticketing_connections": 0})
		a, b := s.dial(t), s.dial(t)
		for _, p := range []*peer{a, b} {
			if _, err := p.challenge(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.dial(t).turnedAway(); err != nil {
			t.Error(err)
		}
		a.close()
		await(t, "a place is free", func() bool {
			p := s.dial(t)
			nonce, err := p.challenge()
			if err != nil {
				return false
			}
			p.send([]byte(digest(secret, nonce) + "\n"))
			p.quiet()
			return true
		})
	}, "AUTH_SECRET="+secret, "MAX_CONNECTIONS=2")
}
