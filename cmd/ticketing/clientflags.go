package main

import (
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"ticketing/client"
)

// connectFlags say which server a client command talks to, and how.
type connectFlags struct {
	Addr       addresses `env:"TICKETING_ADDR" default:"127.0.0.1:7400" range:"host:port, or several with commas, none twice" placeholder:"HOST:PORT,..." help:"The server, or the nodes of a cluster."`
	SecretFile text      `env:"AUTH_SECRET_FILE" range:"a file of secrets, one a line" placeholder:"FILE" help:"Where the secret is, the first one of the file. Instead of it the variable AUTH_SECRET may hold the secret itself."`
	TLSCA      text      `name:"tls-ca" env:"TICKETING_TLS_CA" range:"a file of certificates in PEM" placeholder:"FILE" help:"Turns TLS on: the authorities that may vouch for the server."`
	TLSCert    text      `name:"tls-cert" env:"TICKETING_TLS_CERT" range:"a file of certificates in PEM" placeholder:"FILE" help:"The certificate that the server is shown. Together with its key."`
	TLSKey     text      `name:"tls-key" env:"TICKETING_TLS_KEY" range:"a file with a private key in PEM" placeholder:"FILE" help:"The private key of that certificate."`
}

// attemptFlags are the inputs of one acquire (§1 of the client's rules).
type attemptFlags struct {
	Wait          wholeSeconds `env:"TICKETING_WAIT" default:"30s" range:"0s..255s" placeholder:"DURATION" help:"How long to wait for the key, connecting included; 0s is one attempt. Rounded up to whole seconds."`
	Lease         wholeSeconds `env:"TICKETING_LEASE" default:"30s" range:"1s..250s" placeholder:"DURATION" help:"When the key returns by itself, counted from the grant. Rounded up to whole seconds."`
	MinWorkBudget wholeSeconds `env:"TICKETING_MIN_WORK_BUDGET" default:"0s" range:"0s..250s" placeholder:"DURATION" help:"How much of the lease must be left when the grant arrives; with less it is given back."`
}

func (f *attemptFlags) options() []client.Option {
	return []client.Option{client.Wait(time.Duration(f.Wait)), client.Lease(time.Duration(f.Lease))}
}

// connect checks what no single flag can say and makes the client. It connects
// when it is used.
func (f *connectFlags) connect(p *process) (*client.Client, error) {
	if err := checkVariables(p.environ); err != nil {
		return nil, err
	}
	secret, err := f.secretSource(p.environ).first()
	if err != nil {
		return nil, settingFailed(err)
	}
	encryption, err := f.tlsConfig()
	if err != nil {
		return nil, settingFailed(err)
	}
	c, err := client.New(client.Config{Addrs: f.Addr.list(), Secret: secret, TLS: encryption, Sessions: 1})
	if err != nil {
		return nil, settingFailed(err)
	}
	return c, nil
}

func (f *connectFlags) secretSource(environ []string) *secretSource {
	const variable = "AUTH_SECRET" // and no flag: other users of the machine could see it
	s := &secretSource{valueName: variable, file: f.SecretFile, fileName: "AUTH_SECRET_FILE (--secret-file)"}
	s.value.value, s.value.given = lookup(environ, variable)
	return s
}

// maxPEM is the most that is read of a file with certificates: the authorities
// that a system trusts are a quarter of it.
const maxPEM = 1 << 20

// tlsConfig returns nil without an error when TLS is not asked for.
func (f *connectFlags) tlsConfig() (*tls.Config, error) {
	const caSetting, certSetting, keySetting = "TICKETING_TLS_CA (--tls-ca)", "TICKETING_TLS_CERT (--tls-cert)", "TICKETING_TLS_KEY (--tls-key)"
	switch {
	case f.TLSCert.given != f.TLSKey.given:
		return nil, &settingError{setting: certSetting + " and " + keySetting, problem: "belong together: one of them is missing"}
	case f.TLSCert.given && !f.TLSCA.given:
		return nil, &settingError{setting: certSetting, problem: "is given without " + caSetting + ", which turns TLS on"}
	case !f.TLSCA.given:
		return nil, nil
	}
	return loadTLS(
		pemFile{caSetting, f.TLSCA.value},
		pemFile{certSetting, f.TLSCert.value}, pemFile{keySetting, f.TLSKey.value}, f.TLSCert.given)
}

// addresses are the servers of a client command, with commas between them.
type addresses string

func (a addresses) list() []string { return strings.Split(string(a), ",") }

// Decode implements kong.MapperValue.
func (a *addresses) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, _ string) bool {
		*a = addresses(given)
		all := a.list()
		for i, addr := range all {
			host, port, err := net.SplitHostPort(addr)
			n, err2 := strconv.ParseUint(port, 10, 16)
			if err != nil || err2 != nil || n == 0 || host == "" || slices.Contains(all[:i], addr) {
				return false
			}
		}
		return true
	})
}

// wholeSeconds is a duration that the protocol carries in whole seconds: it is
// rounded up before it is compared with its range.
type wholeSeconds time.Duration

// Decode implements kong.MapperValue.
func (s *wholeSeconds) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, allowed string) bool {
		low, high := bounds(allowed, time.ParseDuration)
		d, err := time.ParseDuration(given)
		if err != nil || d < 0 || d > high {
			return false
		}
		*s = wholeSeconds(d)
		return (d + time.Second - 1).Truncate(time.Second) >= low
	})
}
