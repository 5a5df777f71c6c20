package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"
)

// How errors call the settings of TLS on the client port.
const (
	certSetting     = "TLS_CERT_FILE (--tls-cert-file)"
	keySetting      = "TLS_KEY_FILE (--tls-key-file)"
	clientCASetting = "TLS_CLIENT_CA_FILE (--tls-client-ca-file)"
)

// tlsSource is where the server's side of TLS comes from: files, or nowhere.
type tlsSource struct{ cert, key, clientCA text }

func (c *serveCmd) tlsSource() *tlsSource {
	return &tlsSource{c.TLSCertFile, c.TLSKeyFile, c.TLSClientCAFile}
}

// load reads the files. It returns nil without an error when TLS is not asked for.
func (s *tlsSource) load() (*tls.Config, error) {
	switch {
	case s.cert.given != s.key.given:
		return nil, &settingError{setting: certSetting + " and " + keySetting, problem: "belong together: one of them is missing"}
	case s.clientCA.given && !s.cert.given:
		return nil, &settingError{setting: clientCASetting, problem: "is given without " + certSetting + ", which turns TLS on"}
	case !s.cert.given:
		return nil, nil
	}
	pair, err := loadPair(pemFile{certSetting, s.cert.value}, pemFile{keySetting, s.key.value})
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if s.clientCA.given {
		if cfg.ClientCAs, err = loadAuthorities(pemFile{clientCASetting, s.clientCA.value}); err != nil {
			return nil, err
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return cfg, nil
}

// loadAuthorities reads the certificates of those who may vouch for a peer.
func loadAuthorities(file pemFile) (*x509.CertPool, error) {
	data, err := file.read()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, file.bad(errors.New("no certificate in it"), "a file of certificates in PEM")
	}
	return pool, nil
}

// loadPair reads a certificate and its key.
func loadPair(cert, key pemFile) (tls.Certificate, error) {
	certData, err := cert.read()
	if err != nil {
		return tls.Certificate{}, err
	}
	keyData, err := key.read()
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certData, keyData)
	if err != nil {
		return tls.Certificate{}, cert.bad(err, "a certificate with the key that "+key.setting+" names")
	}
	return pair, nil
}

// logCertificate says which certificate is served, and warns of one that no
// client accepts today.
func logCertificate(log *slog.Logger, what string, cfg *tls.Config) {
	leaf := cfg.Certificates[0].Leaf
	now := time.Now()
	switch {
	case now.After(leaf.NotAfter):
		log.Warn("the certificate of TLS_CERT_FILE has expired: clients refuse it", "not_after", leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		log.Warn("the certificate of TLS_CERT_FILE is not valid yet: clients refuse it", "not_before", leaf.NotBefore)
	}
	log.Info(what, "certificate", leaf.Subject.String(), "not_after", leaf.NotAfter,
		"client_certificates", cfg.ClientAuth == tls.RequireAndVerifyClientCert)
}
