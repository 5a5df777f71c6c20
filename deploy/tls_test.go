package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// selfSigned writes a certificate for 127.0.0.1 and its key into dir.
func selfSigned(t testing.TB, dir string) (certPath, keyPath string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPath, keyPath = dir+"/cert.pem", dir+"/key.pem"
	for path, block := range map[string]*pem.Block{certPath: {Type: "CERTIFICATE", Bytes: der}, keyPath: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return certPath, keyPath
}

// TLS works under the limits of the unit, with a key that root owns and the
// service's group may read.
func TestTLSInItsCell(t *testing.T) {
	c := newCell(t, readUnit(t))
	cert, key := selfSigned(t, c.Etc)
	if err := os.Chown(key, 0, c.User); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cert, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "TLS_CERT_FILE=/etc/ticketing/cert.pem", "TLS_KEY_FILE=/etc/ticketing/key.pem")
	m := newManager(t, c.Run)
	n := mustStart(t, c.command(t))
	m.awaits("READY=1")
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	for range 2 { // the second with what a reload has read
		conn, err := tls.Dial("tcp", n.client, &tls.Config{RootCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		var challenge [19]byte
		if _, err := io.ReadFull(conn, challenge[:]); err != nil || !strings.HasPrefix(string(challenge[:]), "C SHA-256 ") {
			t.Errorf("challenge %q, %v", challenge, err)
		}
		conn.Close()
		n.signal(syscall.SIGHUP)
		m.awaits("RELOADING=1")
		m.awaits("READY=1")
	}
	n.signal(syscall.SIGTERM)
	n.exits(0)
}
