package loop

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// wire is what is below the tls.Conn of a stream. After the handshake what the
// client seals gathers in memory, so that a program can send it cut anywhere.
type wire struct {
	strict
	mu     sync.Mutex
	holds  bool
	sealed []byte
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds {
		return w.Conn.Write(b)
	}
	w.sealed = append(w.sealed, b...)
	return len(b), nil
}

// SetWriteDeadline does nothing: crypto/tls sets one that has passed behind
// close_notify, before that is sent.
func (*wire) SetWriteDeadline(time.Time) error { return nil }

func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds = true
}

// held is how many bytes are sealed and not sent.
func (w *wire) held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sealed)
}

// take returns at most n bytes to be sent.
func (w *wire) take(n int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.sealed))
	b := w.sealed[:n:n]
	w.sealed = w.sealed[n:]
	return b
}

// letter is a record that is sealed and not yet sent whole.
type letter struct {
	begin, end int // where in what the wire holds; begin is negative once a part is sent
	clear      []byte
}

// encrypt makes the handshake.
func (s *stream) encrypt(version uint16) error {
	s.wire = &wire{strict: strict{net.Conn(s.conn)}}
	s.tls = tls.Client(s.wire, &tls.Config{InsecureSkipVerify: true, MaxVersion: version, DynamicRecordSizingDisabled: true})
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	err := s.tls.Handshake()
	_ = s.conn.SetDeadline(time.Time{})
	s.wire.hold()
	return err
}

// seal makes records of b.
func (s *stream) seal(b []byte) {
	for len(b) > 0 {
		n, begin := min(len(b), recordData), s.wire.held()
		_, _ = s.tls.Write(b[:n])
		s.letters = append(s.letters, letter{begin, s.wire.held(), bytes.Clone(b[:n])})
		b = b[n:]
	}
}

// sealEnd makes the record of close_notify.
func (s *stream) sealEnd() {
	begin := s.wire.held()
	_ = s.tls.CloseWrite()
	s.letters = append(s.letters, letter{begin, s.wire.held(), nil})
}

// transmit sends at most n bytes of what is sealed. A record says something when
// all of it is sent; one that is sent in part is as a frame that is.
func (s *stream) transmit(n int) {
	b := s.wire.take(n)
	if len(b) == 0 {
		return
	}
	s.j.mu.Lock()
	whole := 0
	for whole < len(s.letters) && s.letters[whole].end <= len(b) {
		s.take(s.letters[whole].clear)
		s.cut = false
		whole++
	}
	s.letters = s.letters[whole:]
	for i := range s.letters {
		s.letters[i].begin -= len(b)
		s.letters[i].end -= len(b)
	}
	if len(s.letters) > 0 && s.letters[0].begin < 0 {
		if !s.cut && len(s.rest) == 0 && !s.shaking {
			s.begun = s.j.srv.clock()
		}
		s.cut = true
	}
	s.j.mu.Unlock()
	_, _ = s.conn.Write(b) // the server may have ended it: the reader sees that
}
