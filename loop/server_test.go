package loop

import (
	"fmt"
	"testing"

	"ticketing/codec"
)

func TestAcquireReleaseAcrossLoops(t *testing.T) {
	for _, loops := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			srv := startServer(t, func(c *Config) { c.Loops = loops })
			p := dial(t, srv)
			var last uint64
			for i := range 200 {
				key := fmt.Sprint("key-", i)
				p.acquire(uint64(i), 0, 30, key)
				g := p.want(codec.OpGranted)
				if g.Owner != uint64(i) || string(g.Text) != key || g.Token <= last {
					t.Fatalf("granted %+v after token %d", g, last)
				}
				last = g.Token
				p.acquire(9, 0, 30, key)
				p.want(codec.OpTimeout)
				p.release(g.Token+1, key)
				p.want(codec.OpNotHeld)
				p.release(g.Token, key)
				p.want(codec.OpReleased)
			}
		})
	}
}

func TestHandOverAndTimeoutAcrossLoops(t *testing.T) {
	srv := startServer(t, func(c *Config) { c.Loops = 3 })
	a, b, c := dial(t, srv), dial(t, srv), dial(t, srv)
	for i := range 20 {
		key := fmt.Sprint("key-", i)
		a.acquire(1, 0, 30, key)
		g := a.want(codec.OpGranted)
		b.acquire(2, 1, 30, key)
		eventually(t, "b waits", func() bool { return srv.budgets.Waiters.Used() == i+1 })
		_ = g
	}
	for range 20 {
		b.want(codec.OpTimeout)
	}
	a.acquire(1, 0, 30, "k")
	g := a.want(codec.OpGranted)
	b.acquire(2, 60, 30, "k")
	eventually(t, "b waits", func() bool { return srv.budgets.Waiters.Used() == 1 })
	c.acquire(3, 60, 30, "k")
	eventually(t, "c waits", func() bool { return srv.budgets.Waiters.Used() == 2 })
	b.Close()
	eventually(t, "b is gone", func() bool { return srv.budgets.Waiters.Used() == 1 })
	a.release(g.Token, "k")
	a.want(codec.OpReleased)
	if r := c.want(codec.OpGranted); r.Owner != 3 || r.Token <= g.Token {
		t.Fatalf("handed over %+v", r)
	}
}

func TestErrorIsLast(t *testing.T) {
	srv := startServer(t, nil)
	p := dial(t, srv)
	var b []byte
	for i := range 50 {
		b = codec.AppendAcquire(b, uint64(i), 0, 30, fmt.Sprint("key-", i))
	}
	b = append(b, 'X')
	b = append(b, make([]byte, 3000)...)
	p.send(b)
	for range 50 {
		p.want(codec.OpGranted)
	}
	p.wantError("bad_op")
}
