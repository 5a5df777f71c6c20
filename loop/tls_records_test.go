package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"ticketing/codec"
)

// endsWith wants the session's end to be counted so.
func endsWith(t *testing.T, srv *Server, reason EndReason) {
	t.Helper()
	l := srv.loops[0]
	eventually(t, "it ends as "+reason.String(), func() bool {
		return ask(l, func() bool { return l.ended[reason] == 1 }) && srv.live.Load() == 0
	})
}

func startTLS(t *testing.T) *Server {
	t.Helper()
	return startServer(t, func(c *Config) { c.Loops, c.TLS = 1, serverTLS(t) })
}

// trickle sends every byte in a segment of its own.
type trickle struct{ net.Conn }

func (c trickle) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// Records of one byte, records that arrive byte by byte, handshake included, and
// both at once carry the same frames; so does a record with many of them.
func TestTLSInPieces(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			name     string
			size     int // bytes in a record
			dribbled bool
		}{{"records of a byte", 1, false}, {"byte by byte", 1 << 14, true}, {"both", 1, true}, {"big records", 1 << 14, false}} {
			t.Run(tls.VersionName(version)+", "+c.name, func(t *testing.T) {
				srv := startTLS(t)
				raw, err := net.Dial("tcp", srv.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { raw.Close() })
				var wire net.Conn = raw
				if c.dribbled {
					wire = trickle{raw}
				}
				conn := dialTLS(t, wire, &tls.Config{MaxVersion: version})
				p := &peer{t: t, Conn: conn, tcp: raw.(*net.TCPConn)}
				p.r = newPeerReader(conn)
				frames := 3
				if c.size > 1 && !c.dribbled {
					frames = 3000 // several full records, and frames across their bounds
				}
				var b []byte
				for i := range frames {
					b = codec.AppendAcquire(b, uint64(i), 0, 30, "key")
				}
				go func() {
					for len(b) > 0 {
						n := min(c.size, len(b))
						if _, err := conn.Write(b[:n]); err != nil {
							return
						}
						b = b[n:]
					}
				}()
				for i := range frames {
					op := codec.OpTimeout
					if i == 0 {
						op = codec.OpGranted
					}
					if r := p.want(op); r.Owner != uint64(i) {
						t.Fatalf("reply %d is for owner %d", i, r.Owner)
					}
				}
			})
		}
	}
}

// §1.6: a record that does not become whole is a frame that does not. The
// deadline runs from its first byte, is not put off by further ones, and ends
// when there is nothing begun.
func TestTLSProgress(t *testing.T) {
	srv := startTLS(t)
	l := srv.loops[0]
	f := newForger(t, srv)
	session := func() *session { return l.slots[0].session }
	timer := func() bool { return ask(l, func() bool { return session().timer != 0 }) }
	at := func(n int) func() bool {
		return func() bool { return ask(l, func() bool { return session().conn.InboundBuffered() == n }) }
	}
	eventually(t, "the session is there", func() bool { return ask(l, func() bool { return len(l.slots) == 1 }) })
	if timer() {
		t.Fatal("an idle session has a deadline")
	}
	r := f.rekey()
	f.send(r[:1])
	eventually(t, "the deadline is set", timer)
	first := ask(l, func() uint32 { return uint32(session().timer) })
	f.send(r[1:9])
	eventually(t, "more has come", at(9))
	if again := ask(l, func() uint32 { return uint32(session().timer) }); again != first {
		t.Error("the deadline was put off")
	}
	f.send(r[9:])
	eventually(t, "the deadline is gone", func() bool { return !timer() })
	f.send(f.record(recordOfData, "A"))
	eventually(t, "a frame has begun", timer)
	ask(l, func() bool { l.setDeadline(session(), l.now); return true })
	if got, err := io.ReadAll(f.conn); string(got) != "Ebad_request\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	f.tcp.Close()
	endsWith(t, srv, EndBadRequest)
}

// What is no proper TLS ends the connection with an alert, and only that one.
func TestTLSBroken(t *testing.T) {
	forged := func(f *forger) []byte {
		r := f.record(recordOfData, "\n")
		r[len(r)-1] ^= 1
		return r
	}
	for name, c := range map[string]struct {
		bytes func(*forger) []byte
		alert string
	}{
		"forged":             {forged, "bad record MAC"},
		"too long":           {func(*forger) []byte { return []byte{recordOfData, 3, 3, 0xff, 0xff} }, "record overflow"},
		"not TLS any more":   {func(*forger) []byte { return []byte("GET / HTTP/1.1\r\n") }, "protocol version"},
		"unexpected message": {func(f *forger) []byte { return f.record(recordMessage, "\x01\x00\x00\x01\x00") }, ""},
		"the client's alert": {func(f *forger) []byte { return f.record(recordAlert, "\x02\x50") }, ""},
		"empty records": {func(f *forger) (b []byte) {
			for range 20 {
				b = append(b, f.record(recordOfData, "")...)
			}
			return b
		}, "unexpected message"},
		"new keys and nothing else": {func(f *forger) (b []byte) {
			for range 20 {
				b = append(b, f.rekey()...)
			}
			return b
		}, "unexpected message"},
		"a message without end": {func(f *forger) []byte {
			b := f.record(recordMessage, "\x18\x00\xff\xff")
			for range 5 {
				b = append(b, f.record(recordMessage, strings.Repeat("x", 1000))...)
			}
			return b
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv := startTLS(t)
			f := newForger(t, srv)
			// What was asked for before is answered before.
			f.send(f.record(recordOfData, string(codec.AppendRelease(nil, 1, "k"))))
			if _, err := io.ReadFull(f.conn, make([]byte, 11)); err != nil {
				t.Fatal(err)
			}
			f.send(c.bytes(f))
			_, err := io.ReadAll(f.conn)
			if err == nil || !strings.Contains(err.Error(), c.alert) || c.alert == "" && name != "unexpected message" && !errors.Is(err, errCut) {
				t.Errorf("the client reads %v, want %q", err, c.alert)
			}
			f.tcp.Close()
			endsWith(t, srv, EndTLS)
		})
	}
}

// A client that asks for new keys and does not read gathers no answers to that
// without bound: each counts as an unsent reply (§7).
func TestTLSRekeysUnread(t *testing.T) {
	srv := startTLS(t)
	l := srv.loops[0]
	f := newForger(t, srv)
	f.send(f.record(recordOfData, string(codec.AppendAcquire(nil, 1, 0, 250, held))))
	eventually(t, "it is granted", func() bool { return srv.budgets.Keys.Used() == 1 })
	var owed uint64
	for unsentOf(l) == 0 { // fill what the kernel holds
		var b []byte
		for range 64 {
			owed++
			b = codec.AppendAcquire(b, owed, 0, 30, held)
		}
		f.send(f.record(recordOfData, string(b)))
		eventually(t, "the replies are made", func() bool {
			return ask(l, func() bool { return l.shard.Counters().TimedOut == owed })
		})
	}
	before := unsentOf(l)
	if before > 64 {
		t.Fatalf("%d replies are unsent at once", before)
	}
	rekeys := func(n int) {
		var b []byte
		for range n {
			b = append(append(b, f.rekey()...), f.record(recordOfData, "\n")...)
		}
		f.send(b)
	}
	rekeys(unsentReplies - before)
	eventually(t, "all is unsent", func() bool { return unsentOf(l) == unsentReplies })
	rekeys(1)
	endsWith(t, srv, EndSlowReader)
}

// A new key in the midst of work changes nothing.
func TestTLSRekey(t *testing.T) {
	srv := startTLS(t)
	f := newForger(t, srv)
	frame := string(codec.AppendRelease(nil, 1, "k"))
	for i := range 50 {
		b := f.record(recordOfData, frame[:5])
		b = append(b, f.rekey()...)
		b = append(b, f.record(recordOfData, frame[5:])...)
		f.send(b)
		got := make([]byte, len(frame))
		if _, err := io.ReadFull(f.conn, got); err != nil || got[0] != 'N' {
			t.Fatalf("round %d: %q, %v", i, got, err)
		}
	}
}
