package bench

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"ticketing/codec"
)

// liar is a small server that keeps the protocol, but for what a test has it do.
// It knows no timers: no wait and no lease of it ever ends.
type liar struct {
	addr string
	ln   net.Listener

	mu      sync.Mutex
	token   uint64
	keys    map[string]*liarKey
	grants  int // so far
	replies int

	// acquire may answer an acquire in place of the rules.
	acquire func(l *liar, a *liarAttempt) (done bool)
	// release may answer a release in place of the rules.
	release func(l *liar, c *liarConn, token uint64, key string) (done bool)
	// send sees every reply and returns what goes out instead.
	send func(l *liar, c *liarConn, r codec.Reply) []codec.Reply
}

type liarKey struct {
	token uint64 // 0: free
	queue []*liarAttempt
}

type liarAttempt struct {
	conn  *liarConn
	key   string
	owner uint64
	wait  uint8
}

type liarConn struct {
	conn net.Conn
	id   int
}

// newLiar starts a server; tells sets what it lies about, and may be nil.
func newLiar(t *testing.T, tells func(*liar)) *liar {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{addr: ln.Addr().String(), ln: ln, keys: map[string]*liarKey{}}
	if tells != nil {
		tells(l)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for id := 0; ; id++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c := &liarConn{conn: conn, id: id}
			sessions.Go(func() { l.serve(t, c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		sessions.Wait()
	})
	return l
}

func (l *liar) serve(t *testing.T, c *liarConn) {
	defer c.conn.Close()
	buf, n := make([]byte, 64<<10), 0
	for {
		got, err := c.conn.Read(buf[n:])
		n += got
		for used := 0; ; {
			var r codec.Request
			size, reason := codec.ParseRequest(buf[used:n], &r)
			if reason != codec.ReasonNone {
				t.Errorf("the generator sent what is %v: %q", reason, buf[used:n])
				return
			}
			if size == 0 {
				n = copy(buf, buf[used:n])
				break
			}
			used += size
			l.handle(c, &r)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.Logf("connection %d: %v", c.id, err)
			}
			return
		}
	}
}

func (l *liar) handle(c *liarConn, r *codec.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := string(r.Key)
	switch r.Op {
	case codec.OpAcquire:
		a := &liarAttempt{conn: c, key: key, owner: r.ID, wait: r.Wait}
		if l.acquire == nil || !l.acquire(l, a) {
			l.keepAcquire(a)
		}
	case codec.OpRelease:
		if l.release == nil || !l.release(l, c, r.ID, key) {
			l.keepRelease(c, r.ID, key)
		}
	}
}

func (l *liar) at(key string) *liarKey {
	k := l.keys[key]
	if k == nil {
		k = &liarKey{}
		l.keys[key] = k
	}
	return k
}

// keepAcquire answers an acquire by the rules.
func (l *liar) keepAcquire(a *liarAttempt) {
	k := l.at(a.key)
	switch {
	case k.token == 0:
		l.grant(a)
	case a.wait == 0:
		l.reply(a.conn, codec.Reply{Op: codec.OpTimeout, Owner: a.owner, Text: []byte(a.key)})
	default:
		k.queue = append(k.queue, a)
	}
}

// grant gives a key with the next token.
func (l *liar) grant(a *liarAttempt) {
	l.token++
	l.grantAs(a, l.token)
}

func (l *liar) grantAs(a *liarAttempt, token uint64) {
	l.grants++
	l.at(a.key).token = token
	l.reply(a.conn, codec.Reply{Op: codec.OpGranted, Token: token, Owner: a.owner, Text: []byte(a.key)})
}

// keepRelease answers a release by the rules.
func (l *liar) keepRelease(c *liarConn, token uint64, key string) {
	k := l.at(key)
	if k.token != token {
		l.reply(c, codec.Reply{Op: codec.OpNotHeld, Token: token, Text: []byte(key)})
		return
	}
	l.reply(c, codec.Reply{Op: codec.OpReleased, Token: token, Text: []byte(key)})
	l.free(key)
}

// free hands a key over to who waits longest.
func (l *liar) free(key string) {
	k := l.at(key)
	k.token = 0
	if len(k.queue) > 0 {
		first := k.queue[0]
		k.queue = k.queue[1:]
		l.grant(first)
	}
}

func (l *liar) reply(c *liarConn, r codec.Reply) {
	l.replies++
	all := []codec.Reply{r}
	if l.send != nil {
		all = l.send(l, c, r)
	}
	for _, r := range all {
		l.write(c, r)
	}
}

func (l *liar) write(c *liarConn, r codec.Reply) {
	var frame []byte
	switch r.Op {
	case codec.OpGranted:
		frame = codec.AppendGranted(nil, r.Token, r.Owner, r.Text)
	case codec.OpTimeout:
		frame = codec.AppendTimeout(nil, r.Owner, r.Text)
	case codec.OpReleased:
		frame = codec.AppendReleased(nil, r.Token, r.Text)
	case codec.OpNotHeld:
		frame = codec.AppendNotHeld(nil, r.Token, r.Text)
	default:
		frame = append(append([]byte{byte(r.Op)}, r.Text...), '\n')
	}
	_, _ = c.conn.Write(frame) // who has gone is told nothing
}
