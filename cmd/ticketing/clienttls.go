package main

import (
	"crypto/tls"
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
	authorities, err := loadAuthorities(ca)
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	if !shown {
		return cfg, nil
	}
	pair, err := loadPair(cert, key)
	if err != nil {
		return nil, err
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}
