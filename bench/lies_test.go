package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ticketing/codec"
)

// lying is the load that lies are told to: few keys, so that they are wanted
// again and again.
func lying(l *liar) Config {
	cfg := Defaults()
	cfg.Addrs = []string{l.addr}
	cfg.Connections, cfg.Pipeline, cfg.Threads, cfg.Keys = 2, 4, 1, 20
	cfg.Wait, cfg.Warmup, cfg.Ops = time.Second, 0, 400
	return cfg
}

// once makes a lie that is told a single time, at the n-th chance.
func once(n int, lie func() bool) func() bool {
	seen := 0
	return func() bool {
		if seen++; seen < n {
			return false
		}
		if lie() {
			n = 1 << 30
			return true
		}
		return false
	}
}

// Each lie is named, with what it was about, and is the only thing that is said.
func TestLies(t *testing.T) {
	const chance = 50
	sameKey := func(cfg *Config) { cfg.Dist = Single }
	heldKey := func(cfg *Config) { cfg.Dist, cfg.Hold, cfg.Ops = Single, 3*time.Millisecond, 100 }
	for name, lie := range map[string]struct {
		kind  Kind
		says  string
		load  func(*Config)
		tells func(l *liar)
		also  []Kind // what else may follow from it
	}{
		"a held key is granted to another": {TwoHolders, "was not released", heldKey, func(l *liar) {
			var told func() bool
			var a *liarAttempt
			told = once(chance, func() bool {
				if l.at(a.key).token == 0 {
					return false
				}
				l.grant(a)
				return true
			})
			l.acquire = func(_ *liar, next *liarAttempt) bool { a = next; return told() }
		}, []Kind{WrongNotHeld, OutOfTurn}},
		"a grant is repeated for the next owner": {TokenRepeated, "was granted", heldKey, func(l *liar) {
			var a *liarAttempt
			told := once(chance, func() bool {
				token := l.at(a.key).token
				if token == 0 {
					return false
				}
				l.grantAs(a, token)
				return true
			})
			l.acquire = func(_ *liar, next *liarAttempt) bool { a = next; return told() }
		}, []Kind{TwoHolders, WrongNotHeld, OutOfTurn}},
		"a grant is sent twice": {Unmatched, "answered before", nil, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
				if r.Op == codec.OpGranted && told() {
					return []codec.Reply{r, r}
				}
				return []codec.Reply{r}
			}
		}, nil},
		"a released is sent twice": {Unmatched, "no release of this token", nil, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
				if r.Op == codec.OpReleased && told() {
					return []codec.Reply{r, r}
				}
				return []codec.Reply{r}
			}
		}, nil},
		"two keys get the same token": {TokenRepeated, "before that for key", nil, func(l *liar) {
			var a *liarAttempt
			told := once(chance, func() bool {
				if l.at(a.key).token != 0 {
					return false
				}
				l.grantAs(a, l.token) // of the grant before this one
				return true
			})
			l.acquire = func(_ *liar, next *liarAttempt) bool { a = next; return told() }
		}, []Kind{TokenNotRising, WrongNotHeld}},
		"a token is far below the last": {TokenNotRising, "token 7 was granted", nil, func(l *liar) {
			var a *liarAttempt
			l.token = 1000
			told := once(chance, func() bool {
				if l.at(a.key).token != 0 {
					return false
				}
				l.grantAs(a, 7)
				return true
			})
			l.acquire = func(_ *liar, next *liarAttempt) bool { a = next; return told() }
		}, nil},
		"a token of a key is below its last": {TokenNotRising, "the same key was granted", sameKey, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.release = func(_ *liar, c *liarConn, token uint64, key string) bool {
				if len(l.at(key).queue) > 0 && told() {
					l.token -= 10
				}
				return false
			}
		}, []Kind{TokenRepeated}},
		"owners are swapped between keys": {Unmatched, "this owner asks for key", nil, swapOwners(chance, func(a, b *liarAttempt) bool {
			return a.conn == b.conn && a.key != b.key
		}), []Kind{Lost}},
		"owners are swapped between connections": {Unmatched, "the owner is one of connection", nil, swapOwners(chance, func(a, b *liarAttempt) bool {
			return a.conn != b.conn && a.key != b.key
		}), []Kind{Lost}},
		"the queue is not kept": {OutOfTurn, "sent later", func(cfg *Config) { cfg.Dist, cfg.Connections, cfg.Pipeline = Single, 1, 8 }, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.release = func(_ *liar, _ *liarConn, _ uint64, key string) bool {
				if q := l.at(key).queue; len(q) > 1 && told() {
					q[0], q[1] = q[1], q[0]
				}
				return false
			}
		}, nil},
		"the queue is not kept, and another connection is between": {OutOfTurn, "sent later", sameKey, func(l *liar) {
			told := false
			l.release = func(_ *liar, _ *liarConn, _ uint64, key string) bool {
				q := l.at(key).queue
				for i := 2; !told && l.grants > chance && i < len(q); i++ {
					if q[0].conn == q[1].conn && q[0].conn != q[i].conn {
						first, later, other := q[0], q[1], q[i]
						copy(q[3:i+1], q[2:i])
						q[0], q[1], q[2] = later, other, first
						told = true
					}
				}
				return false
			}
		}, nil},
		"a grant for an attempt that is over": {Unmatched, "answered before", sameKey, func(l *liar) {
			var old uint64
			told := false
			l.acquire = func(_ *liar, a *liarAttempt) bool {
				switch {
				case a.conn.id != 0 || told:
				case old == 0:
					old = a.owner
				case l.grants > chance && a.owner&(1<<slotBits-1) == old&(1<<slotBits-1):
					told = true
					l.token++
					l.write(a.conn, codec.Reply{Op: codec.OpGranted, Token: l.token, Owner: old, Text: []byte(a.key)})
				}
				return false
			}
		}, nil},
		"a grant is dropped":    {Lost, "the acquire of owner", func(cfg *Config) { cfg.Wait = 0 }, drop(codec.OpGranted), nil},
		"a released is dropped": {Lost, "the release of token", nil, drop(codec.OpReleased), nil},
		"a timeout is dropped":  {Lost, "the acquire of owner", func(cfg *Config) { cfg.Wait, cfg.Dist = 0, Single }, drop(codec.OpTimeout), nil},
		"a grant nobody asked for": {Unmatched, "there never was such an owner", nil, unasked(func(r codec.Reply) codec.Reply {
			return codec.Reply{Op: codec.OpGranted, Token: 1 << 40, Owner: 1<<64 - 1, Text: r.Text}
		}), nil},
		"a timeout nobody asked for": {Unmatched, "there never was such an owner", nil, unasked(func(r codec.Reply) codec.Reply {
			return codec.Reply{Op: codec.OpTimeout, Owner: 1 << 63, Text: r.Text}
		}), nil},
		"a not-held nobody asked for": {Unmatched, "no release of this token", nil, unasked(func(r codec.Reply) codec.Reply {
			return codec.Reply{Op: codec.OpNotHeld, Token: 1 << 40, Text: r.Text}
		}), nil},
		"a released for another key": {Unmatched, "the release of this token is for key", nil, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
				if r.Op == codec.OpReleased && told() {
					r.Text = []byte("another")
				}
				return []codec.Reply{r}
			}
		}, []Kind{Lost}},
		"a timeout comes early": {EarlyTimeout, "had not run out", nil, func(l *liar) {
			var a *liarAttempt
			told := once(chance, func() bool {
				l.reply(a.conn, codec.Reply{Op: codec.OpTimeout, Owner: a.owner, Text: []byte(a.key)})
				return true
			})
			l.acquire = func(_ *liar, next *liarAttempt) bool { a = next; return told() }
		}, nil},
		"a holder is told that it holds nothing": {WrongNotHeld, "its lease had not ended", nil, func(l *liar) {
			told := once(chance, func() bool { return true })
			l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
				if r.Op == codec.OpReleased && told() {
					r.Op = codec.OpNotHeld
				}
				return []codec.Reply{r}
			}
		}, nil},
		"bytes that are no reply": {Malformed, "unknown op", func(cfg *Config) { cfg.Connections = 1 }, unasked(func(codec.Reply) codec.Reply {
			return codec.Reply{Op: 'X'}
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := lying(newLiar(t, lie.tells))
			if lie.load != nil {
				lie.load(&cfg)
			}
			if lie.kind == Lost || slices.Contains(lie.also, Lost) {
				cfg.Patience = 300 * time.Millisecond // which a server that is merely slow may exceed
			}
			result, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			named := false
			for _, v := range result.Violations {
				switch {
				case v.Kind == lie.kind && strings.Contains(v.Text, lie.says):
					named = true
					if lie.kind != Malformed && (v.Key == "" || !strings.Contains(v.Text, v.Key) || len(v.Times) == 0 || len(v.Connections) == 0) {
						t.Errorf("says too little: %+v", v)
					}
				case v.Kind == lie.kind:
				default:
					if !slices.Contains(lie.also, v.Kind) {
						t.Errorf("besides: %v", v)
					}
				}
			}
			if !named {
				t.Errorf("not named; violations: %v", result.Violations)
			}
		})
	}
}

func drop(op codec.Op) func(*liar) {
	return func(l *liar) {
		told := once(50, func() bool { return true })
		l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
			if r.Op == op && told() {
				return nil
			}
			return []codec.Reply{r}
		}
	}
}

func unasked(makes func(codec.Reply) codec.Reply) func(*liar) {
	return func(l *liar) {
		told := once(50, func() bool { return true })
		l.send = func(_ *liar, _ *liarConn, r codec.Reply) []codec.Reply {
			if told() {
				return []codec.Reply{r, makes(r)}
			}
			return []codec.Reply{r}
		}
	}
}

// swapOwners keeps one grant back and gives its owner to the next one that fits.
func swapOwners(chance int, fits func(a, b *liarAttempt) bool) func(*liar) {
	return func(l *liar) {
		var kept, a *liarAttempt
		told := once(chance, func() bool {
			switch {
			case l.at(a.key).token != 0:
				return false
			case kept == nil:
				kept = a
				l.at(a.key).token = 1 << 62 // taken: nobody else is granted it
				return false
			case !fits(kept, a):
				return false
			}
			l.at(kept.key).token = 0
			kept.owner, a.owner = a.owner, kept.owner
			l.grant(kept)
			l.grant(a)
			kept = nil
			return true
		})
		l.acquire = func(_ *liar, next *liarAttempt) bool {
			a = next
			done := told()
			return done || kept == next
		}
	}
}

// A lease that has ended does not come back to life by a release.
func TestReleasedAfterTheLease(t *testing.T) {
	t.Parallel()
	cfg := lying(newLiar(t, nil)) // which knows no leases
	cfg.Lease, cfg.Hold, cfg.Ops, cfg.Keys = time.Second, 1100*time.Millisecond, 4, 100
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if result.ViolationCounts[WrongReleased] != 4 || len(result.ViolationCounts) != 1 {
		t.Errorf("%v", result.Violations)
	}
}

// The server that lies does not without a lie.
func TestTheLiarIsHonest(t *testing.T) {
	t.Parallel()
	for _, dist := range []Dist{Uniform, Single} {
		cfg := lying(newLiar(t, nil))
		cfg.Dist = dist
		result, err := Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if result.Violated() > 0 || result.Counts.Granted != 400 || result.Counts.Released != 400 {
			t.Errorf("%s: %+v %v", dist, result.Counts, result.Violations)
		}
	}
}
