package loop

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ticketing/codec"
	"ticketing/shard"
)

// heldLog is a replicated log in the hands of the test: turns are confirmed when
// the test says so.
type heldLog struct {
	t   testing.TB
	srv *Server

	mu    sync.Mutex
	turns [][]shard.Turn // by loop, all there were
	keys  [][]string     // by loop and turn: what its records say, as text
	done  []uint64       // by loop, the last confirmed
	auto  bool           // confirm at once
}

func (r *heldLog) Submit(t shard.Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text string
	for b := t.Records; len(b) > 0; {
		rec, n, ok := shard.ParseRecord(b)
		if !ok {
			r.t.Errorf("no record: %q", b)
			return
		}
		text += fmt.Sprintf("%c %s %d;", rec.Kind, rec.Key, rec.Token)
		b = b[n:]
	}
	if n := len(r.turns[t.Loop]); t.Seq != uint64(n+1) {
		r.t.Errorf("loop %d: turn %d behind %d", t.Loop, t.Seq, n)
	}
	r.turns[t.Loop] = append(r.turns[t.Loop], t)
	r.keys[t.Loop] = append(r.keys[t.Loop], text)
	if r.auto {
		r.done[t.Loop] = t.Seq
		go r.srv.Confirm(t.Loop, t.Seq)
	}
}

// startMember runs a server that is a node of a cluster, and does not lead yet.
func startMember(t testing.TB, loops int, change func(*Config)) (*Server, *heldLog) {
	t.Helper()
	r := &heldLog{t: t, turns: make([][]shard.Turn, loops), keys: make([][]string, loops), done: make([]uint64, loops)}
	r.srv = startServer(t, func(c *Config) {
		c.Loops, c.MaxKeys, c.Replica = loops, ClusterMaxKeys, r
		if change != nil {
			change(c)
		}
	})
	t.Cleanup(r.confirmAll) // what the drain waits for
	return r.srv, r
}

// startLeader runs one that leads with no key held.
func startLeader(t testing.TB, loops int, change func(*Config)) (*Server, *heldLog) {
	t.Helper()
	srv, r := startMember(t, loops, change)
	lead(t, srv, 1, 0)
	return srv, r
}

func lead(t testing.TB, srv *Server, epoch, counter uint64, held ...shard.Held) {
	t.Helper()
	keys := map[string]shard.Held{}
	for _, h := range held {
		keys[h.Key] = h
	}
	if err := srv.Lead(epoch, shard.LeadState{Counter: counter, Keys: maps.Values(keys)}); err != nil {
		t.Fatalf("Lead: %v", err)
	}
}

// submitted returns what the records of l's turns say.
func (r *heldLog) submitted(l *loop) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.keys[l.idx]...)
}

func (r *heldLog) last(l *loop) shard.Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.turns[l.idx]); n > 0 {
		return r.turns[l.idx][n-1]
	}
	return shard.Turn{}
}

// await waits until l has submitted n turns in all, and returns the last.
func (r *heldLog) await(l *loop, n int) shard.Turn {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("loop %d submits turn %d", l.idx, n), func() bool { return len(r.submitted(l)) >= n })
	return r.last(l)
}

// confirm confirms all that l has submitted.
func (r *heldLog) confirm(l *loop) {
	seq := r.last(l).Seq
	r.mu.Lock()
	r.done[l.idx] = seq
	r.mu.Unlock()
	r.srv.Confirm(l.idx, seq)
}

// confirmAll confirms all there is and all there will be.
func (r *heldLog) confirmAll() {
	r.mu.Lock()
	r.auto = true
	r.mu.Unlock()
	for _, l := range r.srv.loops {
		r.confirm(l)
	}
}

// proposed says that of every loop's turns all were proposed.
func (r *heldLog) proposed(leader string) shard.Deposed {
	d := shard.Deposed{Leader: leader}
	for _, l := range r.srv.loops {
		d.Proposed = append(d.Proposed, r.last(l).Seq)
	}
	return d
}

// unproposed says that nothing was proposed which is not confirmed.
func (r *heldLog) unproposed(leader string) shard.Deposed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return shard.Deposed{Leader: leader, Proposed: append([]uint64(nil), r.done...)}
}

// settle returns when every loop has done what was on its way to it and between
// them, as far as it needs no confirmation.
func settle(srv *Server) {
	for range 4 {
		for _, l := range srv.loops {
			ask(l, func() bool { return true })
		}
	}
}

// wantSilence fails if anything has been written to p. What a loop writes is
// there when the write returns.
func (p *peer) wantSilence(srv *Server) {
	p.t.Helper()
	settle(srv)
	raw, err := p.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	n, buffered := 0, p.r.Buffered()
	if err := errors.Join(raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }), err); err != nil {
		p.t.Fatal(err)
	}
	if n+buffered > 0 {
		p.t.Fatalf("%d bytes have come; the next is %c", n+buffered, p.next().Op)
	}
}

// wantNotice wants M, L or E as the last frame, and then the end of the stream.
func (p *peer) wantNotice(op codec.Op, text string) {
	p.t.Helper()
	if r := p.want(op); string(r.Text) != text {
		p.t.Fatalf("got %c %q, want %q", r.Op, r.Text, text)
	}
	p.wantEnd()
}

// eachSize runs a test on one loop and on three.
func eachSize(t *testing.T, f func(t *testing.T, loops int)) {
	for _, loops := range []int{1, 3} {
		t.Run(fmt.Sprint("loops=", loops), func(t *testing.T) { f(t, loops) })
	}
}

// wantNothingLeft fails if any budget is used when all is over.
func wantNothingLeft(t testing.TB, srv *Server) {
	t.Helper()
	b := srv.budgets
	eventually(t, "the budgets are given back", func() bool {
		return b.Acquires.Used() == 0 && b.Releases.Used() == 0 && b.Waiters.Used() == 0
	})
	keys := 0
	for _, l := range srv.loops {
		keys += ask(l, func() int { return l.shard.Keys() })
	}
	if b.Keys.Used() != keys {
		t.Fatalf("%d keys in the budget, %d in the shards", b.Keys.Used(), keys)
	}
}

// resetConn ends a client with an RST.
func resetConn(p *peer) {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

func closeWrite(t testing.TB, p *peer) {
	t.Helper()
	if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
