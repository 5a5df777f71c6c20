package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
)

// pemFile is a file in PEM, as a setting names it.
type pemFile struct{ setting, path string }

func (f pemFile) read() ([]byte, error) {
	data, err := readSmall(f.path, maxPEM)
	if err != nil {
		return nil, f.bad(err, "a file in PEM")
	}
	return data, nil
}

func (f pemFile) bad(err error, allowed string) error {
	return &settingError{f.setting, strconv.Quote(f.path), err.Error() + "; allowed is " + allowed}
}

// loadTLS makes a client's side of TLS from the authorities it trusts and, with
// shown, from the certificate that it shows.
func loadTLS(ca, cert, key pemFile, shown bool) (*tls.Config, error) {
	data, err := ca.read()
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !cfg.RootCAs.AppendCertsFromPEM(data) {
		return nil, ca.bad(errors.New("no certificate in it"), "a file of certificates in PEM")
	}
	if !shown {
		return cfg, nil
	}
	certData, err := cert.read()
	if err != nil {
		return nil, err
	}
	keyData, err := key.read()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certData, keyData)
	if err != nil {
		return nil, cert.bad(err, "a certificate with the key that "+key.setting+" names")
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
