package main

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTLS starts a server that a's certificate belongs to.
func startTLS(t *testing.T, a *authority, args ...string) *server {
	t.Helper()
	cert, key := a.leaf("server")
	return start(t, command(t, nil, append([]string{"--tls-cert-file=" + cert, "--tls-key-file=" + key}, args...)...))
}

// The client commands and the server speak TLS with each other, and say what is
// wrong when they do not.
func TestCommandsOverTLS(t *testing.T) {
	t.Parallel() // it waits more than it works
	a, stranger := newAuthority(t), newAuthority(t)
	clientCert, clientKey := a.leaf("client")
	strangeCert, strangeKey := stranger.leaf("stranger")
	open, closed, plain := startTLS(t, a), startTLS(t, a, "--tls-client-ca-file="+a.path), start(t, command(t, nil))
	ca := "--tls-ca=" + a.path
	shown := []string{ca, "--tls-cert=" + clientCert, "--tls-key=" + clientKey}
	for i, c := range []struct {
		name   string
		server *server
		args   []string
		code   int
		says   string
	}{
		{"acquire", open, []string{"acquire", ca}, exitDone, ""},
		{"lock", open, []string{"lock", ca, "--", "true"}, exitDone, ""},
		{"lock with a certificate", closed, append([]string{"lock"}, append(shown, "--", "true")...), exitDone, ""},
		{"release", closed, append([]string{"release"}, append(shown, "1")...), exitNotHeld, "did not hold"},
		{"unknown authority", open, []string{"acquire", "--tls-ca=" + stranger.path}, exitNoSession, "the server's certificate is not accepted"},
		{"no certificate", closed, []string{"acquire", ca}, exitNoSession, "does not accept the client's certificate"},
		{"another's certificate", closed, []string{"acquire", ca, "--tls-cert=" + strangeCert, "--tls-key=" + strangeKey}, exitNoSession, "does not accept the client's certificate"},
		{"plaintext to TLS", open, []string{"acquire", "--wait=1s"}, exitNoSession, "the server demands TLS"},
		{"TLS to plaintext", plain, []string{"acquire", ca}, exitNoSession, "does not speak TLS"},
	} {
		args := append([]string{c.args[0], "k" + strconv.Itoa(i)}, c.args[1:]...)
		cmd := clientCommand(nil, []string{"TICKETING_ADDR=" + c.server.client}, args...)
		_, stderr := launch(t, cmd).exits(c.code)
		if !strings.Contains(stderr, c.says) || c.code != exitDone && strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: stderr %q, want one line with %q", c.name, stderr, c.says)
		}
	}
	open.logs(0, "this is a TLS port and the client does not speak TLS")
	closed.logs(0, "TLS handshake failed")
	plain.logs(0, "the client speaks TLS")

	bench := clientCommand(nil, []string{"TICKETING_ADDR=" + closed.client}, append([]string{"bench", "--ops=200", "--warmup=0s"}, shown...)...)
	if stdout, _ := launch(t, bench).exits(exitDone); !strings.Contains(stdout, "200") {
		t.Errorf("bench over TLS: %q", stdout)
	}
	if _, metrics := open.get("/metrics"); !strings.Contains(metrics, `ticketing_connections_closed_total{reason="plaintext"}`) ||
		!strings.Contains(metrics, `ticketing_tls_handshakes_total{result="full"}`) {
		t.Error("/metrics does not tell of TLS")
	}
}

// SIGHUP: new connections see new certificates and authorities, old connections
// live on, and what does not load changes nothing.
func TestReloadTLS(t *testing.T) {
	t.Parallel() // it waits more than it works
	a, b := newAuthority(t), newAuthority(t)
	cert, key := a.leaf("server")
	s := start(t, command(t, nil, "--tls-cert-file="+cert, "--tls-key-file="+key, "--tls-client-ca-file="+a.path))
	clientPair := func(by *authority) tls.Certificate {
		pair, err := tls.LoadX509KeyPair(by.leaf("client"))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	talk := func(c *tls.Conn) error {
		if _, err := c.Write([]byte("R\x00\x00\x00\x00\x00\x00\x00\x01k\n")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 64))
		return err
	}
	dial := func(trusts *authority, shows tls.Certificate) (*tls.Conn, error) {
		pool := x509.NewCertPool()
		pool.AddCert(trusts.parsed())
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{shows}}}
		nc, err := d.Dial("tcp", s.client)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(patience))
		c := nc.(*tls.Conn)
		return c, talk(c)
	}
	old, err := dial(a, clientPair(a))
	if err != nil {
		t.Fatal(err)
	}

	at := 0
	for _, broken := range []string{cert, key, a.path} {
		good, err := os.ReadFile(broken)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, broken, "nonsense")
		s.signal(syscall.SIGHUP)
		at = s.logs(at, "reload failed: the former certificates stay")
		writeFile(t, broken, string(good))
		if _, err := dial(a, clientPair(a)); err != nil {
			t.Fatalf("after a failed reload: %v", err)
		}
	}

	newCert, newKey := b.leaf("server")
	for from, to := range map[string]string{newCert: cert, newKey: key, b.path: a.dir + "/other"} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, to, string(data))
	}
	// The authority of clients is read from the path the server was given.
	if err := os.Rename(a.dir+"/other", a.path); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.logs(at, "reload: certificates were read again")
	if err := talk(old); err != nil {
		t.Errorf("a connection of before: %v", err)
	}
	if _, err := dial(b, clientPair(b)); err != nil {
		t.Errorf("with the new certificates: %v", err)
	}
	if _, err := dial(b, clientPair(a)); err == nil {
		t.Error("a client of the former authority is let in")
	}
}

// A certificate that no client accepts is served, and said aloud.
func TestExpiredCertificate(t *testing.T) {
	a := newAuthority(t)
	_, cert, key := a.issue("old", &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "old"}, NotAfter: time.Now().Add(-time.Hour),
	})
	start(t, command(t, nil, "--tls-cert-file="+cert, "--tls-key-file="+key)).logs(0, "has expired")
}

// TLS, with or without certificates of clients, is no secret: the rule of §8.6
// stands, and what ALLOW_INSECURE permits is said.
func TestTLSIsNoSecret(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.leaf("server")
	args := []string{"--tls-cert-file=" + cert, "--tls-key-file=" + key, "--tls-client-ca-file=" + a.path, "--listen-addr=0.0.0.0:0"}
	if stderr := failsToStart(t, command(t, nil, args...), exitSetting); !strings.Contains(stderr, "not loopback; allowed only with") {
		t.Errorf("stderr %q", stderr)
	}
	start(t, command(t, nil, append(args, "--allow-insecure")...)).logs(0, "and has a certificate of TLS_CLIENT_CA_FILE")
}
