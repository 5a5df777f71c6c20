package loop

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"ticketing/codec"
)

// testLog sends the server's log to the test's output.
type testLog struct{ t testing.TB }

func (w testLog) Write(b []byte) (int, error) { w.t.Log(string(b)); return len(b), nil }

// startServer runs a server on a free port until the test ends, and checks that
// its drain leaves no session behind.
func startServer(t testing.TB, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{
		TLS:        tlsOfTests,
		ListenAddr: "127.0.0.1:0", Loops: 2, MaxConnections: DefaultConnections, MaxWaiters: DefaultWaiters,
		MaxTotalWaiters: DefaultTotalWaiters, MaxKeys: DefaultKeys, DrainTimeout: 5 * time.Second,
		Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if change != nil {
		change(&cfg)
	}
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := srv.live.Load(); n != 0 {
			t.Errorf("%d sessions left after the drain", n)
		}
	})
	eventually(t, "it serves", srv.Ready)
	return srv
}

// peer is a client that speaks frames.
type peer struct {
	t testing.TB
	net.Conn
	tcp *net.TCPConn // below it
	r   *bufio.Reader
	fin bool // half-closes with a FIN behind close_notify
}

const patience = 20 * time.Second

func dial(t testing.TB, srv *Server) *peer {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, Conn: c, tcp: c.(*net.TCPConn), fin: finOfTests}
	if srv.tls.Load() != nil {
		p.Conn = dialTLS(t, c, &tls.Config{})
	}
	t.Cleanup(func() { p.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	p.r = newPeerReader(p.Conn)
	return p
}

func newPeerReader(c net.Conn) *bufio.Reader { return bufio.NewReaderSize(c, 64<<10) }

// halfClose ends what the client says: with a FIN; over TLS with close_notify, and
// without a FIN unless the test is about that.
func (p *peer) halfClose() {
	err := p.Conn.(interface{ CloseWrite() error }).CloseWrite()
	if err == nil && p.fin {
		err = p.tcp.CloseWrite()
	}
	if err != nil {
		p.t.Errorf("half-close: %v", err)
	}
}

// reset ends the connection with an RST.
func (p *peer) reset() {
	_ = p.tcp.SetLinger(0)
	p.tcp.Close()
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) acquire(owner uint64, wait, lease uint8, key string) {
	p.t.Helper()
	p.send(codec.AppendAcquire(nil, owner, wait, lease, key))
}

func (p *peer) release(token uint64, key string) {
	p.t.Helper()
	p.send(codec.AppendRelease(nil, token, key))
}

// next returns the next reply, with a text of its own.
func (p *peer) next() codec.Reply {
	p.t.Helper()
	r, err := p.read()
	if err != nil {
		p.t.Fatalf("reading a reply: %v", err)
	}
	return r
}

func (p *peer) read() (codec.Reply, error) {
	var r codec.Reply
	for want := 1; ; want++ {
		b, err := p.r.Peek(want)
		if err != nil {
			if len(b) > 0 && err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return r, err
		}
		b, _ = p.r.Peek(p.r.Buffered())
		n, err := codec.ParseReply(b, &r)
		if err != nil {
			return r, err
		}
		if n > 0 {
			r.Text = append([]byte(nil), r.Text...)
			_, err := p.r.Discard(n)
			return r, err
		}
		want = len(b)
	}
}

func (p *peer) want(op codec.Op) codec.Reply {
	p.t.Helper()
	r := p.next()
	if r.Op != op {
		p.t.Fatalf("got reply %c %q, want %c", r.Op, r.Text, op)
	}
	return r
}

func (p *peer) wantError(reason string) {
	p.t.Helper()
	if r := p.want(codec.OpError); string(r.Text) != reason {
		p.t.Fatalf("got E %s, want E %s", r.Text, reason)
	}
	p.wantEnd()
}

func (p *peer) wantEnd() {
	p.t.Helper()
	if r, err := p.read(); err != io.EOF {
		p.t.Fatalf("got %c %q, %v, want the end of the stream", r.Op, r.Text, err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("did not come about: %s", what)
}
