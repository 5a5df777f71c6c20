package loop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"

	"ticketing/auth"
	"ticketing/codec"
	"ticketing/lease"
)

// stream is one client connection whose bytes come from a program. What it
// sends is parsed as one piece, however it is cut, and says what must come back.
type stream struct {
	j    *judge
	conn *net.TCPConn

	// With TLS.
	tls     *tls.Conn // nil without
	wire    *wire
	letters []letter

	// With the judge's mutex.
	nonce    *[auth.NonceSize]byte // of the challenge; nil until it was read
	shaking  bool                  // the digest is not sent yet
	rest     []byte                // sent, and no whole frame or line
	cut      bool                  // a record has been sent in part
	begun    lease.Instant         // when the first byte of rest or of that record was sent
	fault    codec.Reason          // what is wrong with what was sent
	attempts []*attempt
	releases []*giveUp
	said     string // reason of the E that was read
	over     bool   // the reader has come to the end

	shut    bool   // half-closed by us
	left    bool   // closed by us: nothing more is read
	reset   bool   // closed before its end: anything may be missing
	pending []byte // made, and not sent
	eof     chan struct{}
}

// open connects; with TLS of that version unless it is 0.
func (j *judge) open(secrets *auth.Secrets, version uint16) (*stream, error) {
	c, err := net.Dial("tcp", j.srv.Addr().String())
	if err != nil {
		return nil, err
	}
	s := &stream{j: j, conn: c.(*net.TCPConn), shaking: secrets != nil, begun: j.srv.clock(), eof: make(chan struct{})}
	var in io.Reader = c
	if version != 0 {
		if err := s.encrypt(version); err != nil {
			return nil, err
		}
		in = s.tls
	}
	go s.read(in)
	return s, nil
}

// read takes replies until the connection ends.
func (s *stream) read(from io.Reader) {
	defer close(s.eof)
	var in []byte
	challenge := s.shaking
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		in = append(in, b[:n]...)
		s.j.mu.Lock()
		if at := bytes.IndexByte(in, '\n'); challenge && at >= 0 {
			if nonce, ok := auth.ParseChallenge(in[:at]); ok {
				s.nonce = &nonce
			} else {
				s.j.object("challenge %q", in)
			}
			challenge, in = false, in[at+1:]
		}
		for !challenge {
			var r codec.Reply
			n, err := codec.ParseReply(in, &r)
			if err != nil {
				s.j.object("%v: %q", err, in)
			}
			if n == 0 {
				break
			}
			s.handle(&r)
			in = in[n:]
		}
		if err != nil {
			s.end(err, in)
		}
		s.j.mu.Unlock()
		s.j.tell()
		if err != nil {
			return
		}
	}
}

// end judges the end of the connection.
func (s *stream) end(err error, in []byte) {
	s.over = true
	late := s.shaking && s.j.srv.clock() >= s.begun.Add(auth.Timeout)
	switch {
	case s.left:
	case late && errors.Is(err, errCut): // nothing is sent
	case !errors.Is(err, io.EOF):
		s.j.object("the connection ended with %v", err)
	case len(in) > 0:
		s.j.object("the connection ended inside a reply: %q", in)
	case s.said != "" || s.shut:
	case late:
	default:
		s.j.object("the server closed without a reason")
	}
}

// handle judges one reply.
func (s *stream) handle(r *codec.Reply) {
	if s.said != "" {
		s.j.object("%c %q behind E %s", r.Op, r.Text, s.said)
	}
	switch r.Op {
	case codec.OpGranted, codec.OpTimeout, codec.OpBusy:
		s.decided(r)
	case codec.OpReleased, codec.OpNotHeld:
		for _, g := range s.releases {
			if g.answer == 0 && g.token == r.Token && g.key == string(r.Text) {
				g.answer = r.Op
				s.j.ended(g)
				return
			}
		}
		s.j.object("%c for token %d of %q, which was not sent or is answered", r.Op, r.Token, r.Text)
	case codec.OpError:
		s.said = string(r.Text)
		s.failed()
	default:
		s.j.object("%c %q", r.Op, r.Text)
	}
}

// decided judges the outcome of an attempt.
func (s *stream) decided(r *codec.Reply) {
	var a *attempt
	fit := 0
	for _, o := range s.attempts {
		if o.outcome != 0 || o.owner != r.Owner || o.key != string(r.Text) {
			continue
		}
		fit++
		if a == nil || r.Op == codec.OpTimeout && o.wait < a.wait {
			a = o
		}
	}
	if a == nil {
		s.j.object("%c for owner %d of %q, which was not sent or is answered", r.Op, r.Owner, r.Text)
		return
	}
	a.outcome = r.Op
	switch {
	case r.Op == codec.OpGranted:
		s.j.granted(a, r.Token, fit > 1)
	case r.Op == codec.OpTimeout && fit == 1 && s.j.srv.clock() < a.sent.Add(lease.Seconds(a.wait)):
		s.j.object("owner %d of %q timed out early", a.owner, a.key)
	case r.Op == codec.OpBusy && !s.j.full:
		s.j.object("owner %d of %q is refused", a.owner, a.key)
	}
}

// failed judges the reason of an E, and whether all that was decided came first.
func (s *stream) failed() {
	want := s.fault
	switch late := s.j.srv.clock() >= s.begun.Add(progressTimeout); {
	case want != codec.ReasonNone:
	case s.shaking && s.shut && s.inside():
		want = codec.ReasonAuthFailed
	case !s.shaking && s.inside() && (s.shut || late):
		want = codec.ReasonBadRequest
	}
	if s.said != want.String() || want == codec.ReasonNone {
		s.j.object("E %s, want %v", s.said, want)
	}
	if open := s.owed(); open != "" {
		s.j.object("E %s before the answer to %s", s.said, open)
	}
}

// owed names something that is decided and not answered; "" when all is.
func (s *stream) owed() string {
	for _, a := range s.attempts {
		if a.outcome == 0 && a.decided() {
			return "an acquire of " + a.key
		}
	}
	for _, g := range s.releases {
		if g.answer == 0 {
			return "a release of " + g.key
		}
	}
	return ""
}

// inside says that what was sent stands inside a frame, a line or a record.
func (s *stream) inside() bool { return len(s.rest) > 0 || s.cut }

// send sends the first n bytes of what is pending; with TLS at most some bytes of
// what is sealed then.
func (s *stream) send(n, some int) {
	b := s.pending[:n]
	s.pending = s.pending[n:]
	if s.tls != nil {
		s.seal(b)
		s.transmit(some)
		return
	}
	s.j.mu.Lock()
	s.take(b)
	s.j.mu.Unlock()
	_, _ = s.conn.Write(b) // the server may have ended it: the reader sees that
}

// take parses what is about to be sent.
func (s *stream) take(b []byte) {
	now := s.j.srv.clock()
	if !s.inside() && !s.shaking {
		s.begun = now
	}
	s.rest = append(s.rest, b...)
	if s.shaking && s.fault == codec.ReasonNone {
		h := auth.Handshake{Nonce: *s.nonce}
		n, verdict := h.Step(s.rest, s.j.srv.secrets.Load())
		switch verdict {
		case auth.NeedMore:
			return
		case auth.Denied:
			s.fault = codec.ReasonAuthFailed
		case auth.TooLong:
			s.fault = codec.ReasonLineTooLong
		case auth.Accepted:
			s.shaking, s.rest, s.begun = false, s.rest[n:], now
		}
	}
	for s.fault == codec.ReasonNone {
		var r codec.Request
		n, reason := codec.ParseRequest(s.rest, &r)
		s.fault = reason
		if n == 0 {
			return
		}
		s.rest, s.begun = s.rest[n:], now
		switch key := string(r.Key); r.Op {
		case codec.OpAcquire:
			s.attempts = append(s.attempts, &attempt{owner: r.ID, key: key, wait: r.Wait, lease: r.Lease, sent: now, floor: s.j.floor})
		case codec.OpRelease:
			t := ticket{r.ID, key}
			g, known := s.j.grants[t.token]
			s.releases = append(s.releases, &giveUp{ticket: t, live: known && g.key == key && s.j.asked[t] == 0})
			s.j.asked[t]++
		}
	}
}
