package soak

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	rng "math/rand/v2"
	"net"
	"os"
	"time"

	"ticketing/auth"
	"ticketing/codec"
)

// authority vouches for the certificates of one server, which change all the time.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	client *tls.Config // of those who trust it
	hello  []byte      // what a client says first
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(100 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	a.client = &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	var hello bytes.Buffer
	_ = tls.Client(recorder{w: &hello}, a.client).Handshake()
	a.hello = hello.Bytes()
	return a, nil
}

// issue writes a certificate with that serial number, and its key; or one whose
// key is another's.
func (a *authority) issue(serial int, certFile, keyFile string, wrongKey bool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(int64(serial)), NotAfter: time.Now().Add(99 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if wrongKey {
		key = a.key
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(certFile, "CERTIFICATE", der), writePEM(keyFile, "PRIVATE KEY", private))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
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

// errCut is a FIN without a close_notify before it.
var errCut = errors.New("the stream was cut")

// strict is a socket below TLS that tells the two ends of a stream apart.
type strict struct{ net.Conn }

func (s strict) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err == io.EOF {
		err = errCut
	}
	return n, err
}

// shake makes the handshake on c. What is wrong with the certificate is an error
// of its own; a connection that ends is errShort.
func (a *authority) shake(c net.Conn) (*tls.Conn, error) {
	tc := tls.Client(strict{c}, a.client)
	err := tc.Handshake()
	var broken *net.OpError
	if errors.Is(err, errCut) || errors.As(err, &broken) && broken.Op != "remote error" {
		err = errShort
	}
	return tc, err
}

// unshaken begins a handshake and does not end it: before, within and behind what
// a client says first. Nothing is heard of it but the server's part.
func (s *server) unshaken(_ *judge, random *rng.Rand) error {
	begin := time.Now()
	c, err := net.DialTimeout("tcp", s.addr, patience)
	if err != nil {
		return errShort
	}
	defer c.Close()
	defer closeWith(s.ctx, c)()
	_ = c.SetDeadline(begin.Add(patience))
	hello := s.authority.hello
	_, _ = c.Write(hello[:[]int{0, 1, 5, random.IntN(len(hello)), len(hello)}[random.IntN(5)]])
	if random.IntN(4) == 0 {
		pause(s.ctx, time.Duration(random.IntN(1000))*time.Millisecond)
		if random.IntN(2) == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		return nil
	}
	_, err = io.Copy(io.Discard, c)
	return s.tired(begin, err, nil)
}

// stranger speaks TLS where it is not spoken, and does not where it is. It is
// told at once.
func (s *server) stranger(_ *judge, _ *rng.Rand) error {
	if s.authority == nil {
		c, _, err := s.dial(dialer)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte{22, 3, 1, 2, 0, 1, 0}); err != nil {
			return err
		}
		return c.ends("auth_failed")
	}
	c, err := net.DialTimeout("tcp", s.addr, patience)
	if err != nil {
		return errShort
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(codec.AppendRelease(nil, 1, "nobody's")); err != nil {
		return err
	}
	told, err := io.ReadAll(c)
	if alert := "\x15\x03\x03\x00\x02\x02\x46"; string(told) != alert || err != nil {
		return errors.Join(errors.New("no alert to a client without TLS: "+string(told)), err)
	}
	return nil
}

// tired judges the end of a connection on which the client said nothing useful.
func (s *server) tired(begin time.Time, err, want error) error {
	d := time.Since(begin)
	if s.ctx.Err() != nil {
		return nil
	}
	if err != want || d < auth.Timeout-time.Second {
		return errors.Join(errors.New("closed after "+d.String()), err)
	}
	return nil
}
