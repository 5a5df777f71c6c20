package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"ticketing/auth"
	"ticketing/codec"
)

// open connects to addr and carries out the client's side of protocol §8. The
// session it returns is ready for requests; run has not been called.
func (c *Client) open(addr string) (*session, error) {
	limit := connectLimit
	if len(c.cfg.Addrs) > 1 {
		limit = connectLimitMany
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	c.progress(fmt.Errorf("%s: %w", addr, errConnecting))
	transport, err := c.cfg.DialContext(ctx, "tcp", addr)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%s: %w", addr, errConnecting) // not the context's error: the caller's has not ended
		}
		return nil, err
	}
	raw := &countedConn{Conn: transport}
	s, err := c.handshake(ctx, addr, raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return s, nil
}

func (c *Client) handshake(ctx context.Context, addr string, raw *countedConn) (*session, error) {
	s := newSession(c, addr, raw, raw)
	if c.cfg.TLS != nil {
		cfg := c.cfg.TLS
		if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
			host, _, _ := net.SplitHostPort(addr)
			cfg = cfg.Clone()
			cfg.ServerName = host
		}
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, tlsError(ctx, addr, err)
		}
		s.conn = conn
	}
	if len(c.cfg.Secret) > 0 {
		if err := s.authenticate(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// authenticate waits for the challenge and answers it (protocol §8.1, §8.2).
func (s *session) authenticate() error {
	ctx, cancel := context.WithTimeout(s.c.ctx, challengeLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.raw.Close() })
	defer stop()
	missing := &HandshakeError{Addr: s.addr,
		Reason: "a secret is configured and the server sends no challenge"}
	s.c.progress(missing)
	line, rest, err := s.readLine()
	if err != nil {
		if ctx.Err() != nil {
			return missing
		}
		return brokenError(s.addr, err)
	}
	nonce, ok := auth.ParseChallenge(line)
	if !ok {
		return s.noChallenge(line)
	}
	s.in = rest
	if _, err := s.conn.Write(auth.AppendResponse(nil, s.c.cfg.Secret, nonce)); err != nil {
		return brokenError(s.addr, err)
	}
	return nil
}

// noChallenge judges a first line that is none. A server may also end the
// session in place of a challenge.
func (s *session) noChallenge(line []byte) error {
	if len(line) > 1 && codec.Op(line[0]) == codec.OpError {
		return &ServerError{Reason: string(line[1:])}
	}
	return &HandshakeError{Addr: s.addr, Reason: fmt.Sprintf("a secret is configured and the server's first line, %q, is no challenge", line)}
}

// readLine reads up to the first newline. It returns the line without it, and
// what came behind.
func (s *session) readLine() (line, rest []byte, err error) {
	buf := make([]byte, 0, auth.MaxLine)
	for len(buf) < cap(buf) {
		n, err := s.conn.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if end := bytes.IndexByte(buf, '\n'); end >= 0 {
			return buf[:end], buf[end+1:], nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return buf, nil, nil // too long for a challenge
}

// tlsError tells what settings cause from what a network does.
func tlsError(ctx context.Context, addr string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: TLS: %w", addr, errConnecting)
	}
	reason := ""
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		reason = "the server does not speak TLS"
	} else if isCertificateError(err) {
		reason = "the server's certificate is not accepted"
	} else if isCertificateAlert(err) {
		reason = "the server does not accept the client's certificate"
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		reason = "the server ends the TLS handshake"
	}
	if reason == "" {
		return fmt.Errorf("%s: TLS: %w", addr, err)
	}
	return &HandshakeError{Addr: addr, Reason: reason, Err: err}
}

func isCertificateError(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.UnknownAuthorityError](err)
	return ok
}

// isCertificateAlert reports whether err is a TLS alert by which a server
// refuses the client's certificate. With TLS 1.3 it comes after the client's
// side of the handshake is done, in answer to the first Read.
func isCertificateAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return false
	}
	const first, last, unknownCA, accessDenied, required = 42, 46, 48, 49, 116 // RFC 8446 §6.2
	for _, alert := range []tls.AlertError{first, 43, 44, 45, last, unknownCA, accessDenied, required} {
		if op.Err.Error() == alert.Error() {
			return true
		}
	}
	return false
}

// isRefusal reports whether err is one that only other settings cure.
func isRefusal(err error) bool {
	if _, ok := errors.AsType[*HandshakeError](err); ok {
		return true
	}
	server, ok := errors.AsType[*ServerError](err)
	return ok && server.Reason == codec.ReasonAuthFailed.String()
}
