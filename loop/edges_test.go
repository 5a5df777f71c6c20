package loop

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"ticketing/codec"
)

// The races of package shard's edges between real sockets on two loops: a holder
// on one gives many keys up while the first waiter of each, on the other, leaves
// or its time passes. Behind every first waiter stands another, who must get the
// key in the end: it shows a lost wake-up, a second holder and a key that stays
// shut. What the first was granted and did not read must be given back; what it
// read it releases.
type socketEdge struct {
	name  string
	leave func(p *peer)     // how the first waiters leave; nil: they stay
	pass  func(srv *Server) // what time does meanwhile; nil: nothing
	lease uint8             // of the holder
	wait  uint8             // of the first waiters
}

var socketEdges = []socketEdge{
	{"disconnect and grant", func(p *peer) { _ = p.Conn.(*net.TCPConn).SetLinger(0); p.Close() }, nil, 250, 250},
	{"cancel and hand-over", func(p *peer) { _ = p.Conn.(*net.TCPConn).CloseWrite() }, nil, 250, 250},
	{"wait end and grant", nil, func(srv *Server) { letPass(srv, time.Second) }, 250, 1},
	{"release and expiry", nil, func(srv *Server) { letPass(srv, time.Second) }, 1, 250},
}

const (
	edgeKeys   = 256
	firstLease = 9 // seconds
)

// letPass lets time pass for all loops.
func letPass(srv *Server, d time.Duration) {
	srv.ahead.Add(int64(d))
	for _, l := range srv.loops {
		l.command(l.expire)
	}
}

// socketEdgeRounds is how often edgeKeys keys meet each edge: a million times
// with SOAK.
func socketEdgeRounds() int {
	switch {
	case os.Getenv("SOAK") != "":
		return 1_000_000 / edgeKeys
	case raceEnabled:
		return 15
	}
	return 150
}

func TestSocketEdges(t *testing.T) {
	for _, e := range socketEdges {
		t.Run(e.name, func(t *testing.T) {
			r := &socketRound{socketEdge: e, srv: startServer(t, nil), seen: map[string]int{}}
			here, there := r.srv.loops[0], r.srv.loops[1]
			r.keys = append(keysOf(here, edgeKeys/2), keysOf(there, edgeKeys/2)...)
			r.holder, r.next = dialTo(t, r.srv, here), dialTo(t, r.srv, here)
			rounds := socketEdgeRounds()
			for n := range rounds {
				if r.first == nil || e.leave != nil {
					r.first = dialTo(t, r.srv, there)
				}
				r.run(t, n)
			}
			t.Log(r.seen)
			var outcomes uint64
			for _, l := range r.srv.Snapshot(t.Context(), 0).Loops {
				outcomes += l.Shard.Granted + l.Shard.TimedOut + l.Shard.Left
			}
			if outcomes != r.attempts {
				t.Errorf("%d attempts have %d outcomes", r.attempts, outcomes)
			}
		})
	}
}

// socketRound is one server with three clients.
type socketRound struct {
	socketEdge
	t                   *testing.T
	srv                 *Server
	keys                []string
	holder, first, next *peer
	attempts            uint64
	seen                map[string]int // who was told what
}

// run lets every key meet the edge once.
func (r *socketRound) run(t *testing.T, n int) {
	r.t = t
	for _, p := range []*peer{r.holder, r.first, r.next} {
		_ = p.SetReadDeadline(time.Now().Add(patience))
	}
	r.acquire(r.holder, 0, r.lease)
	tokens := map[string]uint64{}
	for range r.keys {
		g := r.holder.want(codec.OpGranted)
		tokens[string(g.Text)] = g.Token
	}
	waiters := r.srv.budgets.Waiters
	r.acquire(r.first, r.wait, firstLease)
	r.soon("the first wait", func() bool { return waiters.Used() == edgeKeys })
	r.acquire(r.next, 250, 250)
	r.soon("the next wait", func() bool { return waiters.Used() == 2*edgeKeys })

	done := make(chan struct{})
	go func() {
		defer close(done)
		for begin := time.Now(); time.Since(begin) < time.Duration(n%32)*10*time.Microsecond; {
		}
		if r.leave != nil {
			r.leave(r.first)
		} else {
			r.pass(r.srv)
		}
	}()
	for batch := range slices.Chunk(r.keys, 16) {
		var b []byte
		for _, k := range batch {
			b = codec.AppendRelease(b, tokens[k], k)
		}
		r.holder.send(b)
	}
	<-done
	for range r.keys {
		a := r.holder.next()
		if r.lease == 250 && a.Op != codec.OpReleased {
			t.Fatalf("%c for a token that holds", a.Op)
		}
		r.seen["holder "+string(a.Op)]++
	}
	r.finish(tokens)
}

// finish takes every key through the hands of those behind the holder. tokens
// has the last one of each key.
func (r *socketRound) finish(tokens map[string]uint64) {
	rises := func(g codec.Reply) {
		if g.Token <= tokens[string(g.Text)] {
			r.t.Fatalf("token %d for %q after %d", g.Token, g.Text, tokens[string(g.Text)])
		}
		tokens[string(g.Text)] = g.Token
	}
	got := map[string]uint64{} // what the next has been granted
	firsts := r.firsts()
	for _, g := range r.judged(r.next) { // all that was granted so far, and nobody has given the first's up
		rises(g)
		got[string(g.Text)] = g.Token
		if firsts[string(g.Text)].Token != 0 {
			r.t.Fatalf("%q is held by the first and by the next", g.Text)
		}
	}
	var b []byte
	given := 0
	for k, g := range firsts {
		if g.Token != 0 {
			rises(g)
			b = codec.AppendRelease(b, g.Token, k)
			given++
		}
	}
	r.holder.send(b)
	for range given {
		r.holder.want(codec.OpReleased)
	}
	if r.leave != nil && len(firsts) == 0 { // grants may have left to a client that did not read them
		letPass(r.srv, firstLease*time.Second)
	}
	for len(got) < len(r.keys) {
		g := r.next.want(codec.OpGranted)
		rises(g)
		got[string(g.Text)] = g.Token
	}
	b = b[:0]
	for k, token := range got {
		b = codec.AppendRelease(b, token, k)
	}
	r.next.send(b)
	for range got {
		r.next.want(codec.OpReleased)
	}
	r.soon("all is free", func() bool {
		return r.srv.budgets.Keys.Used() == 0 && r.srv.budgets.Waiters.Used() == 0
	})
}

// firsts returns the answers that the first waiters read, by key: each has one,
// unless it left.
func (r *socketRound) firsts() map[string]codec.Reply {
	all := map[string]codec.Reply{}
	for {
		if r.leave == nil && len(all) == len(r.keys) {
			return all
		}
		a, err := r.first.read()
		switch {
		case err == io.EOF && r.leave != nil, errors.Is(err, net.ErrClosed):
			r.seen["first left"] += len(r.keys) - len(all)
			return all
		case err != nil:
			r.t.Fatal(err)
		case all[string(a.Text)].Op != 0 || a.Op != codec.OpGranted && (a.Op != codec.OpTimeout || r.wait == 250):
			r.t.Fatalf("%c for %q after %c", a.Op, a.Text, all[string(a.Text)].Op)
		}
		r.seen["first "+string(a.Op)]++
		all[string(a.Text)] = a
	}
}

// judged returns the grants that were on their way to p by now.
func (r *socketRound) judged(p *peer) (grants []codec.Reply) {
	for _, l := range r.srv.loops { // what loops have for one another is taken in
		ask(l, func() bool { return true })
	}
	for _, k := range []string{r.keys[0], r.keys[len(r.keys)-1]} { // one of each loop
		p.release(1<<60, k)
		for {
			a := p.next()
			if a.Op == codec.OpNotHeld {
				break
			}
			if a.Op != codec.OpGranted {
				r.t.Fatalf("%c for %q", a.Op, a.Text)
			}
			grants = append(grants, a)
		}
	}
	return grants
}

// acquire asks for all keys.
func (r *socketRound) acquire(p *peer, wait, lease uint8) {
	var b []byte
	for _, k := range r.keys {
		r.attempts++
		b = codec.AppendAcquire(b, r.attempts, wait, lease, k)
	}
	p.send(b)
}

func (r *socketRound) soon(what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			r.t.Fatalf("did not come about: %s", what)
		}
	}
}
