package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority makes certificates for nodes at 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	var der []byte
	der, a.key = a.sign(a.cert, a.cert, nil)
	writePEM(t, a.file, "CERTIFICATE", der)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(cert, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// give makes a node's certificate and sets it.
func (a *authority) give(c *Config) {
	a.t.Helper()
	der, key := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: c.Node},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, a.key)
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	c.CertFile, c.KeyFile, c.CAFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), a.file
	writePEM(a.t, c.CertFile, "CERTIFICATE", der)
	writePEM(a.t, c.KeyFile, "EC PRIVATE KEY", keyDER)
}

// Nodes with certificates agree; who has none, or another authority's, is not
// even heard.
func TestNodesKnowEachOtherByCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	r := newRig(t, 3, ca.give)
	n := r.leader()
	n.grant(t, "a")
	r.same()

	var foreign Config
	newAuthority(t).give(&foreign)
	pair, err := tls.LoadX509KeyPair(foreign.CertFile, foreign.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, certs := range map[string][]tls.Certificate{"none": nil, "a foreign one": {pair}} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}}
		resp, err := client.Post("https://"+n.cfg.listen()+helloPath, "application/json", bytes.NewReader([]byte("{}")))
		if err == nil {
			resp.Body.Close()
			t.Errorf("with certificate %s it was answered %s", name, resp.Status)
		}
	}
	if resp, err := http.Post("http://"+n.cfg.listen()+helloPath, "application/json", bytes.NewReader([]byte("{}"))); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
}
