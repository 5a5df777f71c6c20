package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// issuer is a private certificate authority.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pemPair is a certificate and its key, in PEM.
type pemPair struct{ cert, key []byte }

// clockSkew is how far behind the clock of a machine may be that is shown a
// certificate right after it was made.
const clockSkew = time.Hour

func newIssuer(name string, now time.Time, valid time.Duration) (*issuer, pemPair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	by := &issuer{cert: template}
	var pair pemPair
	var err error
	by.key, pair, err = by.sign(template)
	if err != nil {
		return nil, pemPair{}, err
	}
	by.cert, err = parseCert(pair.cert)
	return by, pair, err
}

// issue makes a certificate for a server at hosts, for a client if there are
// none, or for both.
func (by *issuer) issue(name string, hosts []string, both bool, now, until time.Time) (pemPair, error) {
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if len(hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if len(hosts) == 0 || both {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, pair, err := by.sign(template)
	return pair, err
}

// sign makes a key and the certificate for it. An issuer without a key signs
// with the new one: its own.
func (by *issuer) sign(template *x509.Certificate) (*ecdsa.PrivateKey, pemPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, pemPair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, pemPair{}, err
	}
	signer := by.key
	if signer == nil {
		signer = key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, signer)
	if err != nil {
		return nil, pemPair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, pemPair{}, err
	}
	return key, pemPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("no certificate in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

// loadIssuer reads an authority that was made before.
func loadIssuer(crt, key string) (*issuer, error) {
	certData, err := readSmall(crt, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", crt, err)
	}
	keyData, err := readSmall(key, maxPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pair, err := tls.X509KeyPair(certData, keyData)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", crt, key, err)
	}
	by := &issuer{}
	if by.cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", crt, err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !by.cert.IsCA {
		return nil, fmt.Errorf("%s: not an authority that this command made", crt)
	}
	by.key = private
	return by, nil
}
