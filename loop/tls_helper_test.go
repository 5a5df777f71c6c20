package loop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

var (
	tlsOfTests *tls.Config // what startServer starts servers with
	finOfTests bool        // clients send a FIN behind close_notify
)

// overTLS runs a test whose servers and clients speak TLS.
func overTLS(t *testing.T, name string, version uint16, fin bool, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		tlsOfTests, finOfTests = serverTLS(t), fin
		tlsOfTests.MaxVersion = version
		defer func() { tlsOfTests, finOfTests = nil, false }()
		test(t)
	})
}

// serverTLS is a server's side with a certificate for 127.0.0.1.
func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
}

// certificate is one for either side that vouches for itself.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func poolOf(t testing.TB, c tls.Certificate) *x509.CertPool {
	t.Helper()
	cert, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}

// errCut is a FIN without a close_notify before it, which crypto/tls would pass
// over in silence.
var errCut = errors.New("the stream was cut")

// strict is a client's socket that tells the two ends of a stream apart.
type strict struct{ net.Conn }

func (s strict) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err == io.EOF {
		err = errCut
	}
	return n, err
}

// dialTLS makes the handshake of a client that trusts anybody.
func dialTLS(t testing.TB, c net.Conn, cfg *tls.Config) *tls.Conn {
	t.Helper()
	cfg.InsecureSkipVerify = true
	tc := tls.Client(strict{c}, cfg)
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := tc.Handshake(); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return tc
}
