package loop

import (
	"crypto/tls"
	"errors"
	"time"
)

// With a certificate every connection speaks TLS (§8.7). The handshake runs on
// a goroutine of its own before the loop hears of the connection
// (tlshandshake.go). After it the same tls.Conn is fed inside the loop, one
// whole record at a time: the records that are not whole yet stay in gnet's
// buffer, so that a connection has no buffer of its own (tlsinput.go). What is to
// be sent is sealed into a buffer of the loop and written at once (tlsoutput.go).
// Everything between the two, frames and replies, is the same as without TLS.

// sealed is what a session with TLS has beside one without.
type sealed struct {
	conn *tls.Conn
	pipe pipe

	rest  []byte // decrypted, and not yet parsed: part of a frame, or frames left behind the release lane
	idle  int    // bytes of records since the last one with data in it
	ended bool   // close_notify was read: nothing the client sends counts any more
	mute  bool   // an alert was the last thing said
}

// pipe is what is below the tls.Conn: the socket during the handshake, memory of
// the loop after it.
type pipe struct {
	shake *handshake // nil once the handshake is done
	loop  *loop      // whose buffer takes what is to be sent
	in    []byte     // one record to be decrypted
}

// errWouldBlock is what a read beyond the fed record gets. crypto/tls keeps any
// error but one that is temporary, and then the connection would be over.
var errWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "no further record is there" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// Read implements net.Conn.
func (p *pipe) Read(b []byte) (int, error) {
	if p.shake != nil {
		return p.shake.read(b)
	}
	if len(p.in) == 0 {
		return 0, errWouldBlock
	}
	n := copy(b, p.in)
	p.in = p.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (p *pipe) Write(b []byte) (int, error) {
	if p.shake != nil {
		return p.shake.write(b)
	}
	p.loop.sealed = append(p.loop.sealed, b...)
	return len(b), nil
}

// prepareTLS returns what a server does TLS with, made from what it was given.
func prepareTLS(given *tls.Config) (*tls.Config, error) {
	if given == nil {
		return nil, nil
	}
	if len(given.Certificates) == 0 && given.GetCertificate == nil && given.GetConfigForClient == nil {
		return nil, errors.New("TLS without a certificate")
	}
	cfg := given.Clone()
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	// A batch of replies is one record: a client that has a part of it can read
	// nothing, and one that has it all can read everything.
	cfg.DynamicRecordSizingDisabled = true
	return cfg, nil
}

// notAfter is when the first of the certificates ends; zero when that is not known.
func notAfter(cfg *tls.Config) (first time.Time) {
	for _, c := range cfg.Certificates {
		if c.Leaf != nil && (first.IsZero() || c.Leaf.NotAfter.Before(first)) {
			first = c.Leaf.NotAfter
		}
	}
	return first
}

// SetTLS replaces certificates and authorities (§8.7). Connections that are there
// live on; sessions of before are not resumed, so that a client whose authority
// is gone must show itself again. TLS cannot be switched on or off while serving.
func (srv *Server) SetTLS(given *tls.Config) error {
	cfg, err := prepareTLS(given)
	if err != nil {
		return err
	}
	if (cfg == nil) != (srv.tls.Load() == nil) {
		return errors.New("TLS cannot be switched on or off while serving")
	}
	srv.tls.Store(cfg)
	return nil
}
