package e2e

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// Constants of XXH64, a fast hash that is easily inverted.
const (
	xxPrime1 = 11400714785074694791
	xxPrime2 = 14029467366897019727
)

func xxRound(lane, input uint64) uint64 {
	return bits.RotateLeft64(lane+input*xxPrime2, 31) * xxPrime1
}

// inverse of an odd number modulo 2^64, by Newton's method.
func inverse(a uint64) uint64 {
	x := a
	for range 6 {
		x *= 2 - a*x
	}
	return x
}

// collidingKeys makes n keys of 64 bytes that have one XXH64 with seed 0. Each
// of its four lanes takes 8 bytes twice: whatever the first 8 are, the second
// can be chosen so that the lane ends in the same state.
func collidingKeys(n int) []string {
	rnd := rand.New(rand.NewPCG(1, 1))
	inverse1, inverse2 := inverse(xxPrime1), inverse(xxPrime2)
	perLane := 1
	for perLane*perLane*perLane*perLane < n {
		perLane++
	}
	p1, p2 := uint64(xxPrime1), uint64(xxPrime2)
	starts := [4]uint64{p1 + p2, p2, 0, -p1}
	const end = 0x123456789abcdef0 // any state will do
	var pairs [4][][2][8]byte
	for lane := range pairs {
		for len(pairs[lane]) < perLane {
			var first, second [8]byte
			for i := range first {
				first[i] = byte('a' + rnd.IntN(26))
			}
			state := xxRound(starts[lane], binary.LittleEndian.Uint64(first[:]))
			need := bits.RotateLeft64(end*inverse1, -31) - state
			binary.LittleEndian.PutUint64(second[:], need*inverse2)
			legal := true
			for _, b := range second {
				legal = legal && b < 0x80 && b != ' ' && b != '\n'
			}
			if legal {
				pairs[lane] = append(pairs[lane], [2][8]byte{first, second})
			}
		}
	}
	keys := make([]string, n)
	for i := range keys {
		var key [64]byte
		rest := i
		for lane := range pairs {
			pair := pairs[lane][rest%perLane]
			rest /= perLane
			copy(key[8*lane:], pair[0][:])
			copy(key[32+8*lane:], pair[1][:])
		}
		keys[i] = string(key[:])
	}
	return keys
}

// TestHashFlood: whoever may send keys may choose them. Keys that collide under
// a hash without a secret seed must cost about what other keys do, or one
// client can stall all the others.
func TestHashFlood(t *testing.T) {
	const n, step = 20_000, 100
	onLoops(t, func(t *testing.T, s *server) {
		stop := s.keepServing(t, 2)
		p := s.dial(t)
		takeAndReturn := func(keys []string) (ticks int) {
			before := cpuTicks(t, s.pid())
			tokens := map[string]uint64{}
			for at := 0; at < n; at += step {
				var b []byte
				for _, key := range keys[at : at+step] {
					b = append(b, acquire(1, 0, 250, key)...)
				}
				p.send(b)
				for _, r := range p.collect(step) {
					if r.op != 'A' {
						t.Fatalf("got %v", r)
					}
					tokens[r.text] = r.token
				}
			}
			for at := 0; at < n; at += step {
				var b []byte
				for _, key := range keys[at : at+step] {
					b = append(b, release(tokens[key], key)...)
				}
				p.send(b)
				for _, r := range p.collect(step) {
					if r.op != 'R' {
						t.Fatalf("got %v", r)
					}
				}
			}
			return cpuTicks(t, s.pid()) - before
		}
		ordinary := make([]string, n)
		for i := range ordinary {
			ordinary[i] = fmt.Sprintf("%064d", i)
		}
		usual := takeAndReturn(ordinary)
		chosen := takeAndReturn(collidingKeys(n))
		stop()
		t.Logf("%d usual keys took %d ms of CPU, as many chosen ones %d ms", n, 10*usual, 10*chosen)
		if chosen > 5*usual+50 {
			t.Errorf("chosen keys cost %d times as much as others", chosen/max(usual, 1))
		}
	})
}
