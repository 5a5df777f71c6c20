package client

import (
	"errors"
	"fmt"
	"io"

	"ticketing/codec"
)

// inbox collects what one Read brought, so that nobody is woken under the
// session's lock. Its slices are reused.
type inbox struct {
	settled []*call
	unused  []grant // grants of abandoned owners, to be given back
}

type grant struct {
	key   string
	token uint64
}

// read is the reader's loop: it parses replies where they lie in the buffer,
// and returns why the session ends.
func (s *session) read() ending {
	buf := make([]byte, readBuffer)
	r, w := 0, copy(buf, s.in) // handshake lines are short
	s.in = nil
	var in inbox
	var failed error
	for at := s.c.now(); ; {
		used, end := s.handle(buf[r:w], at, &in)
		if end.kind != endNone {
			return end
		}
		r += used
		if failed != nil {
			return s.broken(failed, w > r)
		}
		if r == w {
			r, w = 0, 0
		} else if len(buf)-w <= codec.MaxFrame {
			r, w = 0, copy(buf, buf[r:w])
		}
		var n int
		n, failed = s.conn.Read(buf[w:])
		at = s.c.now() // once for all that this Read brought (§2.10)
		w += n
	}
}

// handle takes the whole replies at the front of data. It returns how many
// bytes they are, and why the session ends if it does.
func (s *session) handle(data []byte, at instant, in *inbox) (used int, end ending) {
	if len(data) == 0 {
		return 0, end
	}
	in.settled, in.unused = in.settled[:0], in.unused[:0]
	var reply codec.Reply
	s.mu.Lock()
	for end.kind == endNone {
		n, err := codec.ParseReply(data[used:], &reply)
		if err != nil {
			end = s.malformed(data[used], err)
			break
		}
		if n == 0 {
			break
		}
		used += n
		end = s.match(&reply, at, in)
	}
	s.load.Store(int32(s.live))
	proven := !s.proven && len(in.settled)+len(in.unused) > 0
	s.proven = s.proven || proven
	s.mu.Unlock()

	if proven {
		s.c.proved(s)
	}
	for _, g := range in.unused {
		s.c.compensate(g.key, g.token)
	}
	s.c.deliverAll(in.settled)
	if s.retired.Load() {
		s.killIfIdle(errRetired)
	}
	return used, end
}

// match settles the call that a reply answers. What matches nothing is counted
// and otherwise ignored: releasing a grant that nobody here asked for could
// release somebody else's.
func (s *session) match(reply *codec.Reply, at instant, in *inbox) ending {
	switch reply.Op {
	case codec.OpGranted, codec.OpTimeout, codec.OpBusy:
		return s.matchAcquire(reply, at, in)
	case codec.OpReleased: // and OpNotHeld
		s.matchRelease(reply, verdictReleased, in)
	case codec.OpNotHeld:
		s.matchRelease(reply, verdictNotHeld, in)
	case codec.OpMoved:
		addr := string(reply.Text)
		return ending{kind: endMoved, addr: addr, err: fmt.Errorf("%s: the leader is at %q", s.addr, addr)}
	case codec.OpLeadershipLost:
		addr := string(reply.Text)
		return ending{kind: endLost, addr: addr, err: fmt.Errorf("%s has lost the lead to %q", s.addr, addr)}
	case codec.OpError:
		return s.errorReply(string(reply.Text))
	}
	return ending{}
}

func (s *session) matchAcquire(reply *codec.Reply, at instant, in *inbox) ending {
	k := s.acquires[reply.Owner]
	if k == nil {
		s.unmatched(reply)
		return ending{}
	}
	if k.key != string(reply.Text) {
		return ending{kind: endProtocol, err: errWrongKey}
	}
	delete(s.acquires, reply.Owner)
	if k.state.Load() == callAbandoned {
		s.abandoned--
		if reply.Op == codec.OpGranted {
			in.unused = append(in.unused, grant{k.key, reply.Token})
		}
		s.c.free(k)
		return ending{}
	}
	s.live--
	switch reply.Op {
	case codec.OpGranted:
		k.token, k.at = reply.Token, at
		k.settle(verdictGranted, nil)
	case codec.OpTimeout:
		k.settle(verdictTimeout, nil)
	case codec.OpBusy:
		k.settle(verdictBusy, nil)
	}
	in.settled = append(in.settled, k)
	return ending{}
}

func (s *session) matchRelease(reply *codec.Reply, v verdict, in *inbox) {
	k := s.takeRelease(reply.Token, reply.Text)
	if k == nil {
		s.unmatched(reply)
		return
	}
	s.live--
	k.settle(v, nil)
	in.settled = append(in.settled, k)
}

func (s *session) unmatched(reply *codec.Reply) {
	s.c.counts.unmatched.Add(1)
	s.c.log.Warn("ticketing: reply that matches nothing", "addr", s.addr, "op", string(rune(reply.Op)),
		"owner", reply.Owner, "key", string(reply.Text))
}

// errorReply is E: what becomes of the unanswered depends on the reason (§2.5).
func (s *session) errorReply(reason string) ending {
	end := ending{kind: endProtocol, err: &ServerError{Reason: reason}}
	switch word, _ := codec.ParseReason(reason); word {
	case codec.ReasonAuthFailed:
		end.kind = endRefused
	case codec.ReasonNoLeader, codec.ReasonShuttingDown:
		end.kind = endUnexecuted
	}
	return end
}

// Bytes that stand in front when the two sides do not agree on what they speak.
const (
	challengeByte = 'C'  // of a challenge (protocol §8.1)
	tlsAlertByte  = 0x15 // of a TLS alert record
)

// malformed is a reply that is none. At the front of the stream it can be the
// greeting of a server that wants authentication or TLS: such a server has
// executed nothing.
func (s *session) malformed(first byte, err error) ending {
	plain := s.conn == s.raw
	switch {
	case s.proven:
	case first == challengeByte && len(s.c.cfg.Secret) == 0:
		return ending{kind: endRefused, err: &HandshakeError{Addr: s.addr,
			Reason: "the server demands authentication and no secret is configured"}}
	case first == tlsAlertByte && plain:
		return ending{kind: endRefused, err: &HandshakeError{Addr: s.addr,
			Reason: "the server demands TLS and none is configured"}}
	}
	return ending{kind: endProtocol, err: fmt.Errorf("%s: %w", s.addr, err)}
}

// broken is a Read that failed; inside says that a reply had begun.
func (s *session) broken(err error, inside bool) ending {
	s.mu.Lock()
	proven, writeErr := s.proven, s.writeErr
	s.mu.Unlock()
	switch {
	case !proven && isCertificateAlert(err):
		return ending{kind: endRefused, err: &HandshakeError{Addr: s.addr,
			Reason: "the server does not accept the client's certificate", Err: err}}
	case writeErr != nil:
		return ending{kind: endBroken, err: writeErr}
	case inside && errors.Is(err, io.EOF):
		return ending{kind: endBroken, err: fmt.Errorf("%s: %w", s.addr, errLastReply)}
	}
	return ending{kind: endBroken, err: brokenError(s.addr, err)}
}

// brokenError names the address of a connection that broke.
func brokenError(addr string, err error) error {
	if err == nil {
		err = io.ErrShortWrite
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the server closed the connection", addr)
	}
	return fmt.Errorf("%s: the connection broke: %w", addr, err)
}
