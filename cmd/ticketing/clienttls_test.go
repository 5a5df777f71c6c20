package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"ticketing/client/scripted"
)

// authority is who vouches for the certificates of a test, and where its own is.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key, a.path, _ = a.issue("authority", a.cert)
	return a
}

// issue writes a certificate and its key to files.
func (a *authority) issue(name string, cert *x509.Certificate) (key *ecdsa.PrivateKey, certPath, keyPath string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certPath, keyPath = a.dir+"/"+name+".pem", a.dir+"/"+name+".key"
	writeFile(a.t, certPath, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(a.t, keyPath, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return key, certPath, keyPath
}

// leaf issues a certificate for either side of a connection to 127.0.0.1.
func (a *authority) leaf(name string) (certPath, keyPath string) {
	_, certPath, keyPath = a.issue(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return certPath, keyPath
}

func TestClientTLS(t *testing.T) {
	t.Parallel() // it waits more than it works
	a, stranger := newAuthority(t), newAuthority(t)
	serverCert, serverKey := a.leaf("server")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}}
	open := newPeer(t, cfg, scripted.Honest())
	cfg = cfg.Clone()
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	cfg.ClientCAs.AddCert(a.parsed())
	closed := newPeer(t, cfg, scripted.Honest())
	old := cfg.Clone()
	old.ClientAuth, old.MaxVersion = tls.NoClientCert, tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	outdated := newPeer(t, old, scripted.Honest())
	plain := newPeer(t, nil, scripted.Honest())

	clientCert, clientKey := a.leaf("client")
	strangeCert, strangeKey := stranger.leaf("stranger")
	cases := []struct {
		name  string
		addr  string
		flags []string
		code  int
		says  string
	}{
		{"in order", open.addr, []string{"--tls-ca=" + a.path}, exitDone, ""},
		{"unknown authority", open.addr, []string{"--tls-ca=" + stranger.path}, exitNoSession, "the server's certificate is not accepted"},
		{"with a certificate", closed.addr, []string{"--tls-ca=" + a.path, "--tls-cert=" + clientCert, "--tls-key=" + clientKey}, exitDone, ""},
		{"without a certificate", closed.addr, []string{"--tls-ca=" + a.path}, exitNoSession, "does not accept the client's certificate"},
		{"another's certificate", closed.addr, []string{"--tls-ca=" + a.path, "--tls-cert=" + strangeCert, "--tls-key=" + strangeKey}, exitNoSession, "does not accept the client's certificate"},
		{"TLS 1.1", outdated.addr, []string{"--tls-ca=" + a.path}, exitNoSession, "TLS"},
		{"plaintext", plain.addr, []string{"--tls-ca=" + a.path}, exitNoSession, "the server does not speak TLS"},
		{"another's key", open.addr, []string{"--tls-ca=" + a.path, "--tls-cert=" + clientCert, "--tls-key=" + strangeKey}, exitSetting, "allowed is a certificate with the key that TICKETING_TLS_KEY (--tls-key) names"},
		{"no key", open.addr, []string{"--tls-ca=" + a.path, "--tls-cert=" + clientCert, "--tls-key=" + clientCert}, exitSetting, "allowed is a certificate with the key"},
	}
	var all []*running
	for i, c := range cases {
		key := "k" + strconv.Itoa(i)
		cmd := clientCommand(nil, []string{"TICKETING_ADDR=" + c.addr}, append([]string{"acquire", key}, c.flags...)...)
		all = append(all, launch(t, cmd))
	}
	for i, c := range cases {
		_, stderr := all[i].exits(c.code)
		if c.says == "" && stderr != "" || c.says != "" && strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: stderr %q, want one line with %q", c.name, stderr, c.says)
		}
	}
}

// The variables do what the flags do.
func TestClientTLSVariables(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.leaf("both")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.parsed())
	p := newPeer(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, scripted.Honest())
	launch(t, clientCommand(nil, []string{
		"TICKETING_ADDR=" + p.addr, "TICKETING_TLS_CA=" + a.path, "TICKETING_TLS_CERT=" + cert, "TICKETING_TLS_KEY=" + key,
	}, "release", "k", "1")).exits(exitNotHeld)
}

func (a *authority) parsed() *x509.Certificate {
	a.t.Helper()
	data, err := readSmall(a.path, maxPEM)
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}
