package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing/internal/transcript"
)

// certified is a certificate for 127.0.0.1 that vouches for itself, in files.
type certified struct {
	cert, key string
	pool      *x509.CertPool
}

func newCertified(t testing.TB) *certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ticketing"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &certified{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), x509.NewCertPool()}
	for path, block := range map[string]*pem.Block{c.cert: {Type: "CERTIFICATE", Bytes: der}, c.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return c
}

func (c *certified) settings() []string {
	return []string{"TLS_CERT_FILE=" + c.cert, "TLS_KEY_FILE=" + c.key}
}

// tool is a TLS client of somebody else's, which talks as a person would.
type tool struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *transcript.Buffer
}

// newTool starts a tool, which ends with the test.
func newTool(t *testing.T, name string, args ...string) *tool {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	c := &tool{t: t, cmd: exec.Command(path, args...), out: &transcript.Buffer{}}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	if c.in, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %q", name, c.out)
		}
	})
	return c
}

// asks sends an acquire and waits for its answer.
func (c *tool) asks(wait byte, key string, op byte) {
	c.t.Helper()
	o := newOwner()
	c.says(string(acquire(o, wait, 30, key)))
	id := acquire(o, 0, 0, "")[3:11]
	c.shows(fmt.Sprintf("the answer %c", op), string(id)+key+"\n")
}

func (c *tool) says(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *tool) shows(what, text string) {
	c.t.Helper()
	await(c.t, what, func() bool { return strings.Contains(c.out.String(), text) })
}

// OpenSSL and GnuTLS are served, in both versions, change keys in the midst of
// it, and are told of the drain.
func TestTLSImplementations(t *testing.T) {
	cert := newCertified(t)
	for _, version := range []string{"1.2", "1.3"} {
		t.Run("openssl "+version, func(t *testing.T) {
			s := start(t, cert.settings()...)
			session := filepath.Join(t.TempDir(), "session")
			args := []string{"s_client", "-connect", s.addr, "-CAfile", cert.cert, "-verify_return_error", "-tls1_" + version[2:]}
			c := newTool(t, "openssl", append(args, "-sess_out", session)...)
			c.shows("the handshake", "Verify return code: 0 (ok)")
			c.asks(0, "k", 'A')
			if version == "1.3" {
				c.says("K\n") // a new key, and the server is asked for one too
				c.shows("the new key", "KEYUPDATE")
			}
			c.asks(0, "k", 'T')

			again := newTool(t, "openssl", append(args, "-sess_in", session)...)
			again.shows("the session is resumed", "Reused, TLSv"+version)
			again.asks(0, "k", 'T')

			s.signal(t, syscall.SIGTERM)
			c.shows("E", "Eshutting_down\n")
			for _, c := range []*tool{c, again} {
				c.in.Close()
				c.cmd.Wait()
			}
			if code := s.exit(t, patience); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
		t.Run("gnutls "+version, func(t *testing.T) {
			s := start(t, cert.settings()...)
			_, port, _ := net.SplitHostPort(s.addr)
			c := newTool(t, "gnutls-cli", "--inline-commands", "--x509cafile="+cert.cert,
				"--priority=NORMAL:-VERS-ALL:+VERS-TLS"+version, "-p", port, "127.0.0.1")
			c.asks(0, "k", 'A')
			if version == "1.3" {
				c.says("^rekey^\n")
			}
			c.asks(0, "k", 'T')
			if version == "1.3" { // it says so with the next answer
				c.shows("the new key", "Rekey was completed")
			}
			c.says("?\n")
			c.shows("E", "Ebad_op\n")
		})
	}
}

// dialTLS is dial with TLS between.
func (s *server) dialTLS(t testing.TB, c *certified) *peer {
	t.Helper()
	p := s.dial(t)
	conn := tls.Client(p.conn, &tls.Config{RootCAs: c.pool, ServerName: "127.0.0.1"})
	p.conn.SetDeadline(time.Now().Add(patience))
	if err := conn.Handshake(); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	p.conn.SetDeadline(time.Time{})
	p.in.Reset(conn)
	p.wire = conn
	return p
}

// TestTLSSilence: §8.5, ten seconds for the handshake, then the end with nothing
// sent; those who are silent, or do not speak TLS, are in nobody's way.
func TestTLSSilence(t *testing.T) {
	t.Parallel()
	cert := newCertified(t)
	s := start(t, cert.settings()...)
	served := s.dialTLS(t, cert)
	began := time.Now()
	silent := s.dials(t, 300)
	for i, p := range silent {
		if i%2 == 1 { // it stops in the middle
			p.send([]byte{22, 3, 1, 1, 0, 1, 0})
		}
	}
	for i := range 300 {
		plain := s.dial(t)
		plain.send(acquire(newOwner(), 0, 30, "plain"))
		plain.ends("\x15\x03\x03\x00\x02\x02\x46") // a TLS alert, and no RST
		plain.close()
		key := fmt.Sprint("k", i)
		served.unlock(served.lock(key, 30), key)
		if i%100 == 0 {
			s.dialTLS(t, cert).lock(key, 30)
		}
	}
	for i, p := range silent {
		p.conn.SetReadDeadline(began.Add(10*time.Second + patience))
		if b, err := io.ReadAll(p.in); len(b) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("silent client %d: got %q, %v", i, b, err)
		}
	}
	if d := time.Since(began); d < 10*time.Second {
		t.Errorf("all were closed after %v", d)
	}
	served.lock("plain", 30) // nothing of theirs was executed
	if log := s.stderr.String(); !strings.Contains(log, "does not speak TLS") || !strings.Contains(log, "no TLS handshake within 10 s") {
		t.Error("the log does not say why they were closed")
	}
}

// TestTLSHalfClose: close_notify, without a FIN, is the end of what the client
// says: it is answered, its waiters go, and the server ends with close_notify.
func TestTLSHalfClose(t *testing.T) {
	cert := newCertified(t)
	onLoops(t, func(t *testing.T, s *server) {
		holder, p := s.dialTLS(t, cert), s.dialTLS(t, cert)
		token := holder.lock("held", 250)
		p.queue(250, 250, "held")
		var b []byte
		for i := range 100 {
			b = append(b, release(1<<40, fmt.Sprint("k", i))...)
		}
		p.send(b)
		if err := p.wire.(*tls.Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for _, r := range p.collect(100) {
			if r.op != 'N' {
				t.Fatalf("got %v", r)
			}
		}
		p.ends("")
		holder.unlock(token, "held")
		holder.lock("held", 250) // nobody waits any more
	}, cert.settings()...)
}
