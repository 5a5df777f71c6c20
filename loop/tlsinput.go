package loop

import (
	"encoding/binary"
	"io"

	"ticketing/codec"
)

// What the record layer says (RFC 8446 5.1, RFC 5246 6.2).
const (
	recordHeader    = 5                // bytes: type, version, length
	recordHandshake = 22               // the type of the record that every TLS connection begins with
	recordData      = 16 << 10         // bytes of data in a record at most
	recordSealed    = 18 << 10         // bytes behind the header at most, of the version that allows most
	clearBuffer     = recordData + 512 // a record's data behind a frame, or a line of §8, that is not whole
)

// recordSize returns the length of the record that b begins with, or 0 while its
// header is not whole. Of a record that is too long, or of no version of TLS,
// the header is enough: crypto/tls refuses it for that.
func recordSize(b []byte) int {
	if len(b) < recordHeader {
		return 0
	}
	n := int(binary.BigEndian.Uint16(b[recordHeader-2:]))
	if n > recordSealed || b[1] != 3 {
		n = 0
	}
	return recordHeader + n
}

// reads reports whether frames of s are taken now.
func (s *session) reads() bool {
	return !s.closed && !s.blocked && s.phase < failing && !s.sealed.ended
}

// handleSealedInput is handleInput for a session with TLS.
func (l *loop) handleSealedInput(s *session) {
	t := s.sealed
	whole := len(t.rest) > 0 && l.takeClear(s, append(l.clear[:0], t.rest...))
	buf, err := s.conn.Peek(-1)
	if err != nil {
		return
	}
	n, found := l.takeRecords(s, buf)
	if s.closed {
		return
	}
	if s.phase >= failing {
		n += l.consume(s, buf[n:])
		if s.closed {
			return
		}
	}
	begun := n < len(buf) || len(t.rest) > 0
	if n > 0 { // Discard(0) would discard everything
		_, _ = s.conn.Discard(n)
	}
	switch {
	case s.phase >= failing:
	case t.ended: // the client's end, whether or not it has sent a FIN
		_ = l.engine.Close(s.conn)
	case s.phase == open:
		l.watchProgress(s, whole || found, begun)
	}
}

// takeRecords serves the whole records in buf and returns their length, and
// whether there was a whole frame in them. It stops early as handleFrames does.
func (l *loop) takeRecords(s *session, buf []byte) (n int, found bool) {
	for s.reads() {
		size := recordSize(buf[n:])
		if size == 0 || n+size > len(buf) {
			break
		}
		found = l.takeRecord(s, buf[n:n+size]) || found
		n += size
	}
	return n, found
}

// takeRecord decrypts one record and serves the frames in it. It reports whether
// there was a whole one.
func (l *loop) takeRecord(s *session, record []byte) bool {
	clear, err := l.unseal(s, record)
	switch {
	case s.closed:
		return false
	case err == nil:
		return l.takeClear(s, clear)
	case err == io.EOF:
		s.sealed.ended = true
	case err != errWouldBlock:
		l.breakOff(s, err)
	}
	return false
}

// unseal decrypts one record into the loop's buffer, behind what is left of the
// records before it. What crypto/tls has to say, of new keys or in an alert, is
// sent. The error is errWouldBlock for a record without data.
func (l *loop) unseal(s *session, record []byte) (clear []byte, err error) {
	t := s.sealed
	clear = append(l.clear[:0], t.rest...)
	l.sealed = l.sealed[:0]
	t.pipe.in = record
	n, err := t.conn.Read(clear[len(clear):cap(clear)])
	t.pipe.in = nil
	if len(l.sealed) > 0 {
		l.send(s, nil, l.sealed)
	}
	if n > 0 {
		t.idle = 0
		return clear[:len(clear)+n], nil
	}
	if t.idle += len(record); t.idle > idleRecords && err == errWouldBlock {
		err = errIdleRecords
	}
	return nil, err
}

// takeClear serves the frames in what was decrypted and keeps the rest.
func (l *loop) takeClear(s *session, clear []byte) (whole bool) {
	n := l.consume(s, clear)
	s.sealed.keep(clear[n:])
	return n > 0
}

// keep notes what was decrypted and not yet parsed. Its memory is kept for the
// next frame that comes in pieces, and not beyond the size of one.
func (t *sealed) keep(clear []byte) {
	if len(clear) == 0 && cap(t.rest) > codec.MaxFrame+1 {
		t.rest = nil
		return
	}
	t.rest = append(t.rest[:0], clear...)
}

// unsealAll decrypts what gnet still holds for s, for a tail to be served later.
func (l *loop) unsealAll(s *session) []byte {
	t := s.sealed
	all := append([]byte(nil), t.rest...)
	t.rest = nil
	buf, _ := s.conn.Peek(-1)
	for !t.ended {
		size := recordSize(buf)
		if size == 0 || size > len(buf) {
			break
		}
		clear, err := l.unseal(s, buf[:size])
		if err != nil && err != errWouldBlock {
			t.ended = true
		}
		all = append(all, clear...)
		buf = buf[size:]
	}
	return all
}

// inFrame reports whether the client's stream stands inside a frame: input is
// there that was not parsed.
func (s *session) inFrame() bool {
	if t := s.sealed; t != nil {
		return len(t.rest) > 0 || !t.ended && s.conn.InboundBuffered() > 0
	}
	return s.conn.InboundBuffered() > 0
}

// speaksTLS reports whether a client without TLS sends what begins a TLS
// handshake. No line of §8 and no frame begins like that.
func speaksTLS(s *session, buf []byte) bool {
	return s.sealed == nil && buf[0] == recordHandshake
}

// maybeHintTLS says in the log what the refused bytes of a client most likely are.
func (l *loop) maybeHintTLS(s *session, buf []byte) {
	if speaksTLS(s, buf) {
		l.srv.tlsClient.tell(l.srv.log, "connection refused: the client speaks TLS, and TLS_CERT_FILE is not set", s.conn.RemoteAddr())
	}
}
