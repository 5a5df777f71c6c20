package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ticketing/client"
	"ticketing/client/scripted"
	"ticketing/codec"
)

// certificate makes a self-signed certificate for host a that is valid in the
// bubbles' year 2000 and now.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"a"},
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

func roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(certificate().Leaf)
	return pool
}

// tlsDials connects to r.srv by TLS; wrap may put something below the client's
// side of it.
type tlsDials struct {
	srv    *scripted.Server
	server *tls.Config
	wrap   func(net.Conn) net.Conn
}

func (d *tlsDials) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	if !d.srv.Accept(tls.Server(newBuffered(there), d.server)) {
		return nil, scripted.ErrRefused
	}
	if d.wrap != nil {
		here = d.wrap(here)
	}
	return here, nil
}

// tlsBubble is bubble with TLS. The dials are filled in when the rig is there.
func tlsBubble(t *testing.T, server, own *tls.Config, f func(r *rig, d *tlsDials)) {
	d := &tlsDials{server: server}
	bubble(t, func(cfg *client.Config) {
		cfg.TLS = own
		cfg.DialContext = d.dial
	}, func(r *rig) {
		d.srv = r.srv
		f(r, d)
	})
}

// buffered gives the server's side of a pipe the buffer that a socket has: both
// sides of TLS write without reading when a handshake fails.
type buffered struct {
	net.Conn
	out  chan []byte
	once sync.Once
}

func newBuffered(conn net.Conn) *buffered {
	b := &buffered{Conn: conn, out: make(chan []byte, 1000)}
	go func() {
		for p := range b.out {
			if _, err := conn.Write(p); err != nil {
				break
			}
		}
		conn.Close()
	}()
	return b
}

func (b *buffered) Write(p []byte) (n int, err error) {
	defer func() {
		if recover() != nil {
			err = net.ErrClosed
		}
	}()
	b.out <- slices.Clone(p)
	return len(p), nil
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.out) })
	return nil
}

func serverTLS() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{certificate()}} }

func TestClient_4_TLS(t *testing.T) {
	tlsBubble(t, serverTLS(), &tls.Config{RootCAs: roots()}, func(r *rig, _ *tlsDials) {
		if err := r.must("k").Release(r.ctx); err != nil {
			t.Fatal(err)
		}
	})
}

// Where a byte may leave under TLS: in the transport's Write, below the
// encryption. What the TLS connection reports as unwritten says nothing.
func TestClient_2_5_UnderTLSTheTransportDecidesWhatWasSent(t *testing.T) {
	for _, tc := range []struct {
		pass int // bytes of the record that leave
		sent bool
	}{{0, false}, {1, true}, {5, true}, {30, true}} {
		tlsBubble(t, serverTLS(), &tls.Config{RootCAs: roots()}, func(r *rig, d *tlsDials) {
			armed, used := false, false
			d.wrap = func(conn net.Conn) net.Conn {
				return &faultyConn{Conn: conn, fault: func([]byte) (int, error) {
					if !armed || used {
						return 0, nil
					}
					used = true
					return tc.pass, errFault
				}}
			}
			r.must("first")
			armed = true
			res := r.acquire(r.ctx, "k")
			if !used {
				t.Fatal("the fault was not met")
			}
			if tc.sent {
				wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
			} else if res.err != nil {
				t.Fatalf("no byte left, and the call ended with %v", res.err)
			}
			r.at(60 * sec)
			want := 2
			if tc.sent {
				want = 1
			}
			if n := len(r.frames(codec.OpAcquire)); n != want {
				t.Fatalf("pass %d: %d acquires arrived, want %d", tc.pass, n, want)
			}
		})
	}
}

func TestClient_4_TLSMismatchesAreClearErrors(t *testing.T) {
	wantHandshake := func(t *testing.T, r *rig, text string) {
		t.Helper()
		res := r.acquire(r.ctx, "k", client.Wait(30*sec))
		wantError(t, res.err, client.ErrUnavailable, client.ClassNotExecuted)
		var h *client.HandshakeError
		if !errors.As(res.err, &h) || !strings.Contains(h.Error(), text) {
			t.Fatalf("error is %v, want one that says %q", res.err, text)
		}
		if res.at > 2*sec {
			t.Fatalf("it took %v", res.at)
		}
	}
	t.Run("unknown authority", func(t *testing.T) {
		tlsBubble(t, serverTLS(), &tls.Config{RootCAs: x509.NewCertPool()}, func(r *rig, _ *tlsDials) {
			wantHandshake(t, r, "the server's certificate is not accepted")
		})
	})
	t.Run("another host", func(t *testing.T) {
		tlsBubble(t, serverTLS(), &tls.Config{RootCAs: roots(), ServerName: "b"}, func(r *rig, _ *tlsDials) {
			wantHandshake(t, r, "the server's certificate is not accepted")
		})
	})
	for version, name := range map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"} {
		t.Run("no client certificate, TLS "+name, func(t *testing.T) {
			server := serverTLS()
			server.ClientAuth, server.ClientCAs, server.MaxVersion = tls.RequireAndVerifyClientCert, roots(), version
			tlsBubble(t, server, &tls.Config{RootCAs: roots()}, func(r *rig, _ *tlsDials) {
				wantHandshake(t, r, map[string]string{
					"1.2": "the server ends the TLS handshake", // handshake_failure says no more
					"1.3": "the server does not accept the client's certificate",
				}[name])
			})
			own := &tls.Config{RootCAs: roots(), Certificates: []tls.Certificate{certificate()}}
			tlsBubble(t, server, own, func(r *rig, _ *tlsDials) { r.must("k") })
		})
	}
	t.Run("TLS against plaintext", func(t *testing.T) {
		bubble(t, func(cfg *client.Config) { cfg.TLS = &tls.Config{RootCAs: roots()} }, func(r *rig) {
			wantHandshake(t, r, "the server does not speak TLS")
		})
	})
	t.Run("plaintext against TLS", func(t *testing.T) {
		bubble(t, nil, func(r *rig) {
			r.srv.Greeting("\x15\x03\x03\x00\x02\x02\x46")
			wantHandshake(t, r, "the server demands TLS")
		})
		// A server that closes without a word could have closed for any reason.
		tlsBubble(t, serverTLS(), nil, func(r *rig, _ *tlsDials) {
			res := r.acquire(r.ctx, "k")
			wantError(t, res.err, client.ErrIndeterminate, client.ClassIndeterminate)
		})
	})
}
