package loop

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"ticketing/auth"
	"ticketing/codec"
)

// dialRaw connects and says nothing.
func dialRaw(t testing.TB, srv *Server) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// ended is how many connections ended so in their handshake.
func (hs *handshakes) endedAs(reason EndReason) uint64 { return hs.snapshot().Ended[reason] }

// Clients that say nothing, or stop in the middle, hold up nobody: not one place
// for a handshake that computes is theirs.
func TestSilentHandshakes(t *testing.T) {
	const silent = 300
	srv := startTLS(t)
	served := dial(t, srv)
	hs := srv.handshakes
	var hello bytes.Buffer
	_ = tls.Client(recorder{w: &hello}, &tls.Config{InsecureSkipVerify: true}).Handshake()
	var all []*net.TCPConn
	for i := range silent {
		c := dialRaw(t, srv)
		all = append(all, c)
		switch i % 4 {
		case 1: // in the middle of the header
			_, _ = c.Write(hello.Bytes()[:3])
		case 2: // in the middle of the message
			_, _ = c.Write(hello.Bytes()[:hello.Len()-1])
		case 3: // it does not answer the server
			_, _ = c.Write(hello.Bytes())
		}
	}
	eventually(t, "the handshakes are under way", func() bool { return hs.snapshot().Handshakes == silent })
	for i := range 5 {
		p := dial(t, srv)
		for _, q := range []*peer{p, served} {
			q.acquire(uint64(i), 0, 30, "k")
			q.next()
		}
	}
	if s := hs.snapshot(); s.Handshakes != silent || s.Full != 6 {
		t.Errorf("%d handshakes are under way and %d made, want %d and 6", s.Handshakes, s.Full, silent)
	}
	for _, c := range all {
		c.Close()
	}
	eventually(t, "they are gone", func() bool { return srv.live.Load() == 6 })
	if n := hs.endedAs(EndClient) + hs.endedAs(EndReset); n != silent {
		t.Errorf("%d are counted as gone, want %d", n, silent)
	}
}

// recorder keeps what a client says first.
type recorder struct {
	net.Conn
	w io.Writer
}

func (r recorder) Write(b []byte) (int, error)    { return r.w.Write(b) }
func (recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (recorder) SetDeadline(time.Time) error      { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// A handshake counts for MAX_CONNECTIONS (§7), and gives its place back.
func TestHandshakesCount(t *testing.T) {
	srv := startServer(t, func(c *Config) {
		c.MaxConnections, c.TLS, c.Logger = 2, serverTLS(t), slog.New(slog.DiscardHandler)
	})
	a, b := dialRaw(t, srv), dialRaw(t, srv)
	eventually(t, "both are there", func() bool { return srv.live.Load() == 2 })
	if _, err := dialRaw(t, srv).Read(make([]byte, 1)); err == nil {
		t.Error("a third is taken in")
	}
	a.Close()
	eventually(t, "one has gone", func() bool { return srv.live.Load() == 1 })
	dial(t, srv)
	b.Close()
}

// §8.5: 10 s from the accept, for TLS and the line of §8 together; then nothing
// is sent. The test does not wait: it moves the deadline.
func TestHandshakeTimeout(t *testing.T) {
	secrets, err := auth.NewSecrets([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := startServer(t, func(c *Config) { c.Loops, c.TLS, c.Secrets = 1, serverTLS(t), secrets })
	c := dialRaw(t, srv)
	hs := srv.handshakes
	eventually(t, "it is under way", func() bool { return hs.snapshot().Handshakes == 1 })
	hs.mu.Lock()
	for h := range hs.conns {
		if d := h.until.Sub(srv.start) - time.Duration(srv.clock()); d > auth.Timeout || d < auth.Timeout/2 {
			t.Errorf("it has %v", d)
		}
		_ = h.conn.SetDeadline(time.Unix(1, 0))
	}
	hs.mu.Unlock()
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("got %q, %v; want the end", b, err)
	}
	eventually(t, "it is counted", func() bool { return hs.endedAs(EndHandshakeTimeout) == 1 })

	p := dial(t, srv)
	l := srv.loops[0]
	if line, err := p.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "C SHA-256 ") {
		t.Fatalf("challenge %q, %v", line, err)
	}
	ask(l, func() bool {
		s := l.slots[0].session
		if left := s.accepted.Add(auth.Timeout).Sub(l.now); left > auth.Timeout || s.timer == 0 {
			t.Errorf("%v are left for the line", left)
		}
		l.setDeadline(s, l.now)
		return true
	})
	if _, err := p.read(); err != errCut {
		t.Errorf("got %v, want the end with nothing sent", err)
	}
}

// A client without TLS gets an alert and a clean end; whatever it sent.
func TestPlaintextOnTLSPort(t *testing.T) {
	var log bytes.Buffer
	srv := startServer(t, func(c *Config) { c.TLS, c.Logger = serverTLS(t), slog.New(slog.NewTextHandler(&log, nil)) })
	for i, first := range []string{"\n", "R", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("A", 40000)} {
		c := dialRaw(t, srv)
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); !bytes.Equal(b, alertNotTLS) || err != nil {
			t.Errorf("%.10q: got %q, %v", first, b, err)
		}
		c.Close()
		eventually(t, "it is counted", func() bool { return srv.handshakes.endedAs(EndPlaintext) == uint64(i+1) && srv.live.Load() == 0 })
	}
	if said := log.String(); !strings.Contains(said, "the client does not speak TLS") || !strings.Contains(said, "client=127.0.0.1:") || strings.Count(said, "\n") > 2 {
		t.Errorf("logged %q", said)
	}
}

// A client with TLS on a plaintext port is refused at once, and the log says why.
func TestTLSOnPlaintextPort(t *testing.T) {
	secrets, err := auth.NewSecrets([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	for want, with := range map[string]*auth.Secrets{"Ebad_op\n": nil, "Eauth_failed\n": secrets} {
		var log bytes.Buffer
		srv := startServer(t, func(c *Config) { c.Secrets, c.Logger = with, slog.New(slog.NewTextHandler(&log, nil)) })
		c := dialRaw(t, srv)
		_, _ = c.Write([]byte{recordHandshake, 3, 1}) // shorter than any line that is too long
		b, err := io.ReadAll(c)
		if !strings.HasSuffix(string(b), want) || err != nil {
			t.Errorf("got %q, %v; want %q", b, err, want)
		}
		c.Close()
		eventually(t, "it is gone", func() bool { return srv.live.Load() == 0 })
		if said := log.String(); !strings.Contains(said, "the client speaks TLS") || !strings.Contains(said, "client=127.0.0.1:") {
			t.Errorf("logged %q", said)
		}
	}
}

// Sessions are resumed, in both versions, until the certificates change.
func TestResumption(t *testing.T) {
	srv := startTLS(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache := tls.NewLRUClientSessionCache(1)
		connect := func() bool {
			c := dialTLS(t, dialRaw(t, srv), &tls.Config{ServerName: "x", ClientSessionCache: cache, MaxVersion: version})
			p := &peer{t: t, Conn: c, r: newPeerReader(c)}
			p.release(1, "k")
			p.want(codec.OpNotHeld) // and the ticket of 1.3 with it
			return c.ConnectionState().DidResume
		}
		if connect() || !connect() {
			t.Errorf("%s: the second connection should resume the first, and only that", tls.VersionName(version))
		}
		if err := srv.SetTLS(serverTLS(t)); err != nil {
			t.Fatal(err)
		}
		if connect() {
			t.Errorf("%s: a session of other certificates is resumed", tls.VersionName(version))
		}
	}
	if s := srv.Snapshot(t.Context(), 0).TLS; s.Full != 4 || s.Resumed != 2 {
		t.Errorf("%d full and %d resumed, want 4 and 2", s.Full, s.Resumed)
	}
}

// A client without a certificate of the right authority learns so, and its
// requests are not looked at; one with it is served.
func TestClientCertificates(t *testing.T) {
	mine, others := certificate(t), certificate(t)
	srv := startServer(t, func(c *Config) {
		c.TLS = serverTLS(t)
		c.TLS.ClientAuth, c.TLS.ClientCAs = tls.RequireAndVerifyClientCert, poolOf(t, mine)
	})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, c := range map[string]struct {
			shown []tls.Certificate
			alert string
		}{"right": {[]tls.Certificate{mine}, ""}, "none": {nil, "tls: "}, "wrong": {[]tls.Certificate{others}, "certificate"}} {
			conn := tls.Client(strict{dialRaw(t, srv)}, &tls.Config{InsecureSkipVerify: true, MaxVersion: version, Certificates: c.shown})
			_, err := conn.Write(codec.AppendAcquire(nil, 1, 0, 1, name))
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			if c.alert == "" && err != nil || c.alert != "" && (err == nil || !strings.Contains(err.Error(), c.alert)) {
				t.Errorf("%s, %s: %v", tls.VersionName(version), name, err)
			}
		}
	}
	if n := srv.Snapshot(t.Context(), 0).Loops; n[0].Shard.Granted+n[1].Shard.Granted > 2 {
		t.Error("somebody was served who must not be")
	}
}

// The drain tells sessions, and does not wait for handshakes.
func TestDrainWithTLS(t *testing.T) {
	srv, err := New(Config{
		ListenAddr: "127.0.0.1:0", Loops: 2, MaxConnections: 9, MaxWaiters: 1, MaxTotalWaiters: 1, MaxKeys: 1,
		DrainTimeout: MaxDrainTimeout, TLS: serverTLS(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	eventually(t, "it serves", srv.Ready)
	p, silent := dial(t, srv), dialRaw(t, srv)
	eventually(t, "both are there", func() bool { return srv.live.Load() == 2 && srv.handshakes.snapshot().Handshakes == 1 })
	cancel()
	p.wantError("shutting_down")
	p.Close()
	if b, err := io.ReadAll(silent); len(b) > 0 || err != nil {
		t.Errorf("the silent one got %q, %v", b, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := srv.handshakes.endedAs(EndShuttingDown); n != 1 {
		t.Errorf("%d handshakes ended by the drain, want 1", n)
	}
}

// TLS cannot come or go while serving, nor be without a certificate.
func TestSetTLS(t *testing.T) {
	plain, secure := startServer(t, nil), startTLS(t)
	if plain.SetTLS(serverTLS(t)) == nil || secure.SetTLS(nil) == nil || secure.SetTLS(&tls.Config{}) == nil {
		t.Error("it is allowed")
	}
	old := tls.Client(dialRaw(t, secure), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if err := old.Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}
