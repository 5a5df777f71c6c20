package e2e

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait for something that must happen; it decides
// nothing but how soon a dead server is noticed.
const patience = 20 * time.Second

var lastOwner atomic.Uint64

// newOwner gives an owner no other attempt of this process has, so that a
// reply that strays to another connection is always noticed.
func newOwner() uint64 { return 1<<40 + lastOwner.Add(1) }

// acquire is a request A (§1).
func acquire(owner uint64, wait, lease byte, key string) []byte {
	b := append(make([]byte, 0, 12+len(key)), 'A', wait, lease)
	b = binary.BigEndian.AppendUint64(b, owner)
	return append(append(b, key...), '\n')
}

// release is a request R (§1).
func release(token uint64, key string) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'R'}, token)
	return append(append(b, key...), '\n')
}

// reply is one frame of the server, and when it was there.
type reply struct {
	op           byte
	token, owner uint64
	text         string // key, or reason behind E
	at           time.Time
}

func (r reply) String() string {
	switch r.op {
	case 'A':
		return fmt.Sprintf("A token=%d owner=%#x key=%.40q", r.token, r.owner, r.text)
	case 'T', 'B':
		return fmt.Sprintf("%c owner=%#x key=%.40q", r.op, r.owner, r.text)
	case 'R', 'N':
		return fmt.Sprintf("%c token=%d key=%.40q", r.op, r.token, r.text)
	}
	return fmt.Sprintf("%c%s", r.op, r.text)
}

// peer is one client connection.
type peer struct {
	t    testing.TB
	conn *net.TCPConn
	wire net.Conn // what frames are written to: conn, or TLS over it
	in   *bufio.Reader
}

// tryDial connects; rcvbuf > 0 sets the receive buffer's size before.
func (s *server) tryDial(t testing.TB, rcvbuf int) (*peer, error) {
	d := net.Dialer{Timeout: patience, KeepAlive: -1}
	if rcvbuf > 0 {
		d.Control = func(_, _ string, rc syscall.RawConn) (err error) {
			e := rc.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, rcvbuf)
			})
			return errors.Join(e, err)
		}
	}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &peer{t: t, conn: c.(*net.TCPConn), wire: c, in: bufio.NewReaderSize(c, 1<<16)}, nil
}

// dial connects, and closes when the test is over.
func (s *server) dial(t testing.TB) *peer {
	t.Helper()
	p, err := s.tryDial(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func (s *server) dials(t testing.TB, n int) []*peer {
	t.Helper()
	peers := make([]*peer, n)
	for i := range peers {
		peers[i] = s.dial(t)
	}
	return peers
}

func (p *peer) close() { p.conn.Close() }

// reset ends the connection with an RST instead of a FIN.
func (p *peer) reset() {
	p.conn.SetLinger(0)
	p.conn.Close()
}

// closeWrite half-closes: the server sees the end of the stream.
func (p *peer) closeWrite() {
	p.t.Helper()
	if err := p.conn.CloseWrite(); err != nil {
		p.t.Fatalf("half-close: %v", err)
	}
}

// send writes the frames in one write.
func (p *peer) send(frames ...[]byte) {
	p.t.Helper()
	if err := p.write(frames...); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// write is send for goroutines that must not end the test.
func (p *peer) write(frames ...[]byte) error {
	var b []byte
	for _, f := range frames {
		b = append(b, f...)
	}
	p.conn.SetWriteDeadline(time.Now().Add(patience))
	_, err := p.wire.Write(b)
	return err
}

// next reads one frame: header by count, then text up to its newline.
func (p *peer) next() (reply, error) { return p.nextWithin(patience) }

func (p *peer) nextWithin(d time.Duration) (r reply, err error) {
	p.conn.SetReadDeadline(time.Now().Add(d))
	if r.op, err = p.in.ReadByte(); err != nil {
		return r, err
	}
	var ids [2]uint64
	n, most := 1, 128
	switch r.op {
	case 'A':
		n = 2
	case 'T', 'B', 'R', 'N':
	case 'E', 'M', 'L':
		n, most = 0, 191
	default:
		return r, fmt.Errorf("%#x begins no frame of the server", r.op)
	}
	var header [16]byte
	if _, err = io.ReadFull(p.in, header[:8*n]); err != nil {
		return r, fmt.Errorf("header of %c: %w", r.op, err)
	}
	for i := range n {
		ids[i] = binary.BigEndian.Uint64(header[8*i:])
	}
	switch r.op {
	case 'A':
		r.token, r.owner = ids[0], ids[1]
	case 'T', 'B':
		r.owner = ids[0]
	case 'R', 'N':
		r.token = ids[0]
	}
	text, err := p.in.ReadBytes('\n')
	r.at = time.Now()
	if err != nil {
		return r, fmt.Errorf("text of %c: %q: %w", r.op, text, err)
	}
	if r.text = string(text[:len(text)-1]); len(r.text) > most {
		return r, fmt.Errorf("text of %c has %d bytes", r.op, len(r.text))
	}
	return r, nil
}

// is says whether a reply is op for that key with that id: the owner of an
// attempt for A, T and B, the token of a release for R and N.
func (r reply) is(op byte, id uint64, key string) bool {
	got := r.owner
	if op == 'R' || op == 'N' {
		got = r.token
	}
	return r.op == op && got == id && r.text == key
}

// expect reads one frame and wants it to be that one.
func (p *peer) expect(op byte, id uint64, key string) reply {
	p.t.Helper()
	r, err := p.want(op, id, key)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// want is expect for goroutines that must not end the test.
func (p *peer) want(op byte, id uint64, key string) (reply, error) {
	r, err := p.next()
	if err != nil {
		return r, fmt.Errorf("waiting for %c id=%#x key=%.40q: %w", op, id, key, err)
	}
	if !r.is(op, id, key) {
		return r, fmt.Errorf("got %v, want %c id=%#x key=%.40q", r, op, id, key)
	}
	if op == 'A' && r.token == 0 {
		return r, fmt.Errorf("token 0 was issued: %v", r)
	}
	return r, nil
}

// collect reads n frames.
func (p *peer) collect(n int) []reply {
	p.t.Helper()
	rs := make([]reply, n)
	for i := range rs {
		var err error
		if rs[i], err = p.next(); err != nil {
			p.t.Fatalf("reply %d of %d: %v", i+1, n, err)
		}
	}
	return rs
}

// lock takes a free key and returns its token.
func (p *peer) lock(key string, lease byte) uint64 {
	p.t.Helper()
	o := newOwner()
	p.send(acquire(o, 0, lease, key))
	return p.expect('A', o, key).token
}

// unlock releases a key with the token that holds it.
func (p *peer) unlock(token uint64, key string) {
	p.t.Helper()
	p.send(release(token, key))
	p.expect('R', token, key)
}

// refused sends an acquire that must be answered with op (T or B) at once.
func (p *peer) refused(op, wait byte, key string) {
	p.t.Helper()
	o := newOwner()
	p.send(acquire(o, wait, 30, key))
	p.expect(op, o, key)
}

// queue parks an attempt and returns its owner once it stands in the queue.
// Requests of a connection on one key are judged in order (§4.4): the N of a
// release with token 0 behind it says the attempt was judged.
func (p *peer) queue(wait, lease byte, key string) uint64 {
	p.t.Helper()
	o := newOwner()
	p.send(acquire(o, wait, lease, key), release(0, key))
	p.expect('N', 0, key)
	return o
}

// quiet proves that no reply is on its way that was decided by now.
func (p *peer) quiet() {
	p.t.Helper()
	p.send(release(0, "quiet"))
	p.expect('N', 0, "quiet")
}

// rest reads until the server's FIN. An RST is an error.
func (p *peer) rest() ([]byte, error) {
	p.conn.SetReadDeadline(time.Now().Add(patience))
	return io.ReadAll(p.in)
}

// ends wants exactly these bytes and then the end of the stream, no RST.
func (p *peer) ends(want string) {
	p.t.Helper()
	if err := p.wantEnd(want); err != nil {
		p.t.Fatal(err)
	}
}

// wantEnd is ends for goroutines that must not end the test.
func (p *peer) wantEnd(want string) error {
	got, err := p.rest()
	if string(got) != want || err != nil {
		return fmt.Errorf("got %.80q and then %v, want %q and then EOF", got, err, want)
	}
	return nil
}
