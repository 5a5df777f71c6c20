package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// seeded gives a random source and prints the seed that repeats it.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("E2E_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// model is a deliberately dumb lock server: what each request must lead to
// when nothing runs out. Tokens are filled in from the server's answers.
type model struct {
	keys map[string]*modelKey
	last uint64 // greatest token seen
}

type modelKey struct {
	held   bool
	token  uint64 // 0 while the grant's reply has not been read
	owner  uint64 // attempt that holds it
	queue  []modelWaiter
	tokens []uint64 // every token this key ever had
}

type modelWaiter struct {
	peer  int
	owner uint64
}

// outcome is a reply a connection must get. token stays open for A.
type outcome struct {
	op    byte
	id    uint64
	key   string
	grant *modelKey
}

func (m *model) acquire(peer int, owner uint64, wait byte, key string, want [][]outcome) {
	k := m.keys[key]
	switch {
	case !k.held:
		k.held, k.token, k.owner = true, 0, owner
		want[peer] = append(want[peer], outcome{'A', owner, key, k})
	case wait == 0:
		want[peer] = append(want[peer], outcome{op: 'T', id: owner, key: key})
	default:
		k.queue = append(k.queue, modelWaiter{peer, owner})
	}
}

func (m *model) release(peer int, token uint64, key string, want [][]outcome) {
	k := m.keys[key]
	if !k.held || token == 0 || k.token != token {
		want[peer] = append(want[peer], outcome{op: 'N', id: token, key: key})
		return
	}
	want[peer] = append(want[peer], outcome{op: 'R', id: token, key: key})
	k.held, k.token = false, 0
	if len(k.queue) > 0 {
		w := k.queue[0]
		k.queue = k.queue[1:]
		k.held, k.owner = true, w.owner
		want[w.peer] = append(want[w.peer], outcome{'A', w.owner, key, k})
	}
}

func (m *model) leave(peer int) (waiters int) {
	for _, k := range m.keys {
		k.queue = slices.DeleteFunc(k.queue, func(w modelWaiter) bool { return w.peer == peer })
		waiters += len(k.queue)
	}
	return waiters
}

// check reads what the connections must get, in any order on each.
func (m *model) check(peers []*peer, want [][]outcome) error {
	for i, outs := range want {
		for range len(want[i]) {
			r, err := peers[i].next()
			if err != nil {
				return fmt.Errorf("connection %d, still to come %v: %w", i, outs, err)
			}
			at := slices.IndexFunc(outs, func(o outcome) bool { return r.is(o.op, o.id, o.key) })
			if at < 0 {
				return fmt.Errorf("connection %d got %v, want one of %v", i, r, outs)
			}
			if k := outs[at].grant; k != nil {
				if n := len(k.tokens); n > 0 && k.tokens[n-1] >= r.token {
					return fmt.Errorf("%v: token not above %d", r, k.tokens[n-1])
				}
				if k.tokens = append(k.tokens, r.token); k.held && k.owner == r.owner {
					k.token = r.token
				}
				m.last = max(m.last, r.token)
			}
			outs = slices.Delete(outs, at, at+1)
		}
	}
	return nil
}

func (o outcome) String() string { return fmt.Sprintf("%c(%#x, %s)", o.op, o.id, o.key) }

// TestAgainstModel runs random requests of several connections, one batch of
// one connection at a time, cut into random pieces, and wants exactly the
// replies of the model.
func TestAgainstModel(t *testing.T) {
	const clients, keys, batches = 6, 12, 400
	onLoops(t, func(t *testing.T, s *server) {
		rnd := seeded(t)
		m := &model{keys: map[string]*modelKey{}}
		var names []string
		for i := range keys {
			names = append(names, fmt.Sprint("key-", i, text(i*10)))
			m.keys[names[i]] = &modelKey{}
		}
		peers := s.dials(t, clients)
		for batch := range batches {
			want := make([][]outcome, clients)
			i := rnd.IntN(clients)
			if rnd.IntN(12) == 0 { // leave and come back
				if rnd.IntN(2) == 0 {
					peers[i].close()
				} else {
					peers[i].reset()
				}
				left := float64(m.leave(i))
				await(t, "the waiters of a closed connection are gone", func() bool {
					return s.metrics(t)["ticketing_waiters"] == left
				})
				peers[i] = s.dial(t)
			}
			var b []byte
			touched := map[string]bool{}
			for range 1 + rnd.IntN(30) {
				key := names[rnd.IntN(keys)]
				touched[key] = true
				k := m.keys[key]
				switch rnd.IntN(8) {
				case 0, 1:
					o := newOwner()
					b = append(b, acquire(o, 0, 250, key)...)
					m.acquire(i, o, 0, key, want)
				case 2, 3:
					o := newOwner()
					b = append(b, acquire(o, 255, 250, key)...)
					m.acquire(i, o, 255, key, want)
				case 4, 5, 6: // the token that holds, unless it is unknown yet
					b = append(b, release(k.token, key)...)
					m.release(i, k.token, key, want)
				case 7:
					token := rnd.Uint64N(m.last + 1)
					if len(k.tokens) > 0 && rnd.IntN(2) == 0 {
						token = k.tokens[rnd.IntN(len(k.tokens))]
					}
					if k.held && k.token == 0 { // it could be the unknown one
						token = 0
					}
					b = append(b, release(token, key)...)
					m.release(i, token, key, want)
				}
				if rnd.IntN(10) == 0 {
					b = append(b, '\n')
				}
			}
			for _, key := range slices.Sorted(maps.Keys(touched)) { // answered when all before it was judged
				b = append(b, release(0, key)...)
				m.release(i, 0, key, want)
			}
			for len(b) > 0 {
				n := len(b)
				if rnd.IntN(2) == 0 {
					n = 1 + rnd.IntN(n)
				}
				peers[i].send(b[:n])
				b = b[n:]
			}
			if err := m.check(peers, want); err != nil {
				t.Fatalf("batch %d: %v", batch, err)
			}
		}
		for _, p := range peers {
			p.quiet()
		}
	})
}
