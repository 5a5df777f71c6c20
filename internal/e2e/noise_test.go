package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// noise is input that is wrong in a random way, often after a good start.
func noise(rnd *rand.Rand, good []byte) []byte {
	n := 1 + rnd.IntN(300)
	if rnd.IntN(20) == 0 {
		n = 20_000
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	switch rnd.IntN(8) {
	case 0:
		return b
	case 1: // looks like a frame
		b[0] = "AR\n"[rnd.IntN(3)]
		return b
	case 2: // a good one with a byte changed
		g := append([]byte(nil), good...)
		g[rnd.IntN(len(g))] ^= byte(1 << rnd.IntN(8))
		return append(g, b...)
	case 3: // a good one cut
		return good[:rnd.IntN(len(good))]
	case 4: // a good one, then noise
		return append(append([]byte(nil), good...), b...)
	case 5: // ASCII
		for i := range b {
			b[i] = byte(32 + rnd.IntN(95))
		}
		return b
	case 6: // nothing but frames' bytes
		for i := range b {
			b[i] = "AR\n\x00\x01k"[rnd.IntN(6)]
		}
		return b
	}
	var many []byte // good frames without their ends
	for range rnd.IntN(100) {
		many = append(many, good[:1+rnd.IntN(len(good))]...)
	}
	return append(many, '\n')
}

// sink reads whole frames until the connection ends.
func (p *peer) sink(own func(r reply) bool) error {
	for {
		r, err := p.next()
		switch {
		case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
			return nil
		case err != nil:
			return err
		case !own(r):
			return fmt.Errorf("got %v", r)
		case r.op == 'E':
			if rest, err := p.rest(); len(rest) > 0 {
				return fmt.Errorf("%q, %v behind %v", rest, err, r)
			}
			return nil
		}
	}
}

// TestNoise sends random bytes to connections in every state. Whatever comes
// back is whole frames; the others are served; nothing is left afterwards.
func TestNoise(t *testing.T) {
	const clients, rounds = 16, 60
	onLoops(t, func(t *testing.T, s *server) {
		rnd := seeded(t)
		before := s.footprint(t)
		holder := s.dial(t)
		token := holder.lock("held", 250)
		stop := s.keepServing(t, 3)
		seeds := make([]uint64, clients)
		for i := range seeds {
			seeds[i] = rnd.Uint64()
		}
		together(t, clients, func(i int) error {
			rnd := rand.New(rand.NewPCG(seeds[i], 1))
			for round := range rounds {
				p, err := s.tryDial(t, 0)
				if err != nil {
					return err
				}
				good := acquire(rnd.Uint64(), byte(rnd.IntN(3)), byte(1+rnd.IntN(2)), fmt.Sprint("noise", rnd.IntN(20)))
				if rnd.IntN(2) == 0 {
					good = release(rnd.Uint64N(100), fmt.Sprint("noise", rnd.IntN(20)))
				}
				state := rnd.IntN(6)
				switch state {
				case 0: // fresh
				case 1: // has a lock
					p.write(acquire(1, 0, 1, fmt.Sprint("lock", i, round)))
				case 2: // waits
					p.write(acquire(1, 250, 1, "held"), acquire(2, 250, 1, "held"))
				case 3: // in a frame
					p.write(good[:1+rnd.IntN(len(good)-1)])
				case 4: // after an error
					p.write([]byte("?"))
				case 5: // half-closed right behind it
				}
				for range rnd.IntN(4) {
					p.write(noise(rnd, good))
					if rnd.IntN(4) == 0 {
						time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
					}
				}
				switch {
				case state == 5 || rnd.IntN(3) > 0:
					p.conn.CloseWrite()
					err = p.sink(func(r reply) bool { return r.op != 'M' && r.op != 'L' })
				case rnd.IntN(2) == 0:
					p.reset()
				}
				p.close()
				if err != nil {
					return fmt.Errorf("client %d, round %d, state %d: %w", i, round, state, err)
				}
			}
			return nil
		})
		holder.unlock(token, "held")
		holder.close()
		stop()
		s.backTo(t, before)
	})
}

// TestNoiseInHandshake does the same to connections that have not said the
// digest.
func TestNoiseInHandshake(t *testing.T) {
	const clients, rounds = 8, 40
	onLoops(t, func(t *testing.T, s *server) {
		rnd := seeded(t)
		before := s.footprint(t)
		seeds := make([]uint64, clients)
		for i := range seeds {
			seeds[i] = rnd.Uint64()
		}
		together(t, clients, func(i int) error {
			rnd := rand.New(rand.NewPCG(seeds[i], 2))
			for round := range rounds {
				p, err := s.tryDial(t, 0)
				if err != nil {
					return err
				}
				nonce, err := p.challenge()
				if err != nil {
					return err
				}
				line := []byte(digest(secret, nonce) + "\n")
				switch rnd.IntN(3) {
				case 0:
					p.write(noise(rnd, line))
				case 1:
					p.write(line[:rnd.IntN(len(line))], noise(rnd, line))
				case 2: // let in
					p.write(line, noise(rnd, acquire(1, 0, 1, "k")))
				}
				if rnd.IntN(3) > 0 {
					p.conn.CloseWrite()
					err = p.sink(func(r reply) bool { return r.op != 'M' && r.op != 'L' })
				} else {
					p.reset()
				}
				p.close()
				if err != nil {
					return fmt.Errorf("client %d, round %d: %w", i, round, err)
				}
			}
			return nil
		})
		p := s.login(t, secret)
		p.quiet()
		p.close()
		s.backTo(t, before)
	}, "AUTH_SECRET="+secret)
}
