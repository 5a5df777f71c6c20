package loop

import (
	"testing"

	"ticketing/codec"
)

// A half-closed client that begins to read at the worst moment, while gnet
// lets go of the connection, gets every reply exactly once all the same.
func TestHalfClosedClientReadsMeanwhile(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 1 })
	l := srv.loops[0]
	rounds := 40
	if tlsOfTests != nil {
		rounds = 5 // it is the same code; encryption under the race detector is slow
	}
	for round := range rounds {
		p := dial(t, srv)
		p.acquire(0, 0, 250, held)
		p.next()
		var owed uint64
		for unsentOf(l) < 150 {
			before := ask(l, func() uint64 { return l.shard.Counters().TimedOut })
			var b []byte
			for range 64 {
				owed++
				b = codec.AppendAcquire(b, owed, 0, 30, held)
			}
			p.send(b)
			eventually(t, "the replies are made", func() bool {
				return ask(l, func() bool { return l.shard.Counters().TimedOut == before+64 })
			})
		}
		go p.halfClose()
		for i := range owed {
			if r := p.want(codec.OpTimeout); r.Owner != i+1 {
				t.Fatalf("round %d: reply %d is for owner %d", round, i+1, r.Owner)
			}
		}
		p.wantEnd()
		eventually(t, "the session is gone", func() bool { return srv.live.Load() == 0 })
	}
}
