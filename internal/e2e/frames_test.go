package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// badFrame is input that must be answered with exactly this error.
type badFrame struct {
	name   string
	bytes  []byte
	reason string
}

func text(n int) string { return strings.Repeat("k", n) }

// cut is a frame without its newline.
func cut(frame []byte) []byte { return frame[:len(frame)-1] }

// newlines is an owner and a token whose every byte is 0x0A.
const newlines = 0x0a0a0a0a0a0a0a0a

// badKeys are the texts that are no keys (§2).
var badKeys = map[string]string{
	"empty":              "",
	"129 bytes":          text(129),
	"129 bytes of UTF-8": strings.Repeat("é", 64) + "x",
	"130 bytes of UTF-8": strings.Repeat("é", 65),
	"space":              " ",
	"space first":        " k",
	"space last":         "k ",
	"space inside":       "a b",
	"space at byte 128":  text(127) + " ",
	"0xff":               "k\xff",
	"lone continuation":  "\x80",
	"cut sequence":       "k\xe2\x82",
	"cut at byte 128":    text(127) + "\xc3",
	"overlong NUL":       "\xc0\x80",
	"overlong slash":     "\xe0\x80\xaf",
	"surrogate":          "\xed\xa0\x80",
	"above U+10FFFF":     "\xf4\x90\x80\x80",
	"five bytes":         "\xf8\x88\x80\x80\x80",
	"good, then bad":     "schlüssel\xfc",
}

// goodKeys are texts that look odd and are keys all the same.
var goodKeys = map[string]string{
	"one byte":           "k",
	"128 bytes":          text(128),
	"128 bytes of UTF-8": strings.Repeat("é", 64),
	"128 bytes of emoji": strings.Repeat("🔒", 32),
	"carriage return":    "\r",
	"ends in \\r":        "key\r",
	"NUL":                "\x00",
	"NUL inside":         "a\x00b",
	"tab":                "\t",
	"DEL and controls":   "\x01\x7f\x1b",
	"U+FFFD itself":      "\uFFFD",
	"U+10FFFF":           "\U0010FFFF",
	"no-break space":     "a\u00a0b",
	"other spaces":       "\u2003\u3000\u2028\u0085",
	"byte order mark":    "\ufeffkey",
	"composed":           "\u00e9",
	"decomposed":         "e\u0301",
	"looks like frames":  "AEbad_key",
	"looks like an op":   "X",
}

func badFrames() []badFrame {
	var fs []badFrame
	add := func(name, reason string, b []byte) { fs = append(fs, badFrame{name, b, reason}) }

	for _, lease := range []byte{0, 251, 252, 253, 254, 255} {
		add(fmt.Sprintf("lease %d", lease), "bad_lease", acquire(1, 5, lease, "k"))
		add(fmt.Sprintf("lease %d and wait 0", lease), "bad_lease", acquire(1, 0, lease, "k"))
	}
	for name, key := range badKeys {
		add("A key "+name, "bad_key", acquire(1, 5, 30, key))
		add("R key "+name, "bad_key", release(1, key))
	}
	// The header's newlines end no text (§1.1).
	add("A of newlines, empty key", "bad_key", acquire(newlines, 10, 10, ""))
	add("R of newlines, empty key", "bad_key", release(newlines, ""))

	// 192 bytes without the newline are a frame, 193 are too long (§1.2, §1.5).
	add("A of 192", "bad_key", acquire(1, 5, 30, text(181)))
	add("R of 192", "bad_key", release(1, text(183)))
	add("A of 193", "line_too_long", cut(acquire(1, 5, 30, text(182))))
	add("R of 193", "line_too_long", cut(release(1, text(184))))
	add("A of 193, newline behind", "line_too_long", acquire(1, 5, 30, text(182)))
	add("R of 193, newline behind", "line_too_long", release(1, text(184)))
	add("A of 193, header of newlines", "line_too_long", cut(acquire(newlines, 10, 10, text(182))))
	add("R of 193, header of newlines", "line_too_long", cut(release(newlines, text(184))))
	add("A of 5000", "line_too_long", acquire(1, 5, 30, text(5000)))
	add("R of 5000", "line_too_long", release(1, text(5000)))

	// The order of the checks (§1.4).
	add("bad lease, bad key", "bad_lease", acquire(1, 5, 0, "a b"))
	add("bad lease, empty key", "bad_lease", acquire(1, 5, 251, ""))
	add("bad lease, key not UTF-8", "bad_lease", acquire(1, 5, 255, "\xff"))
	add("too long, bad lease", "line_too_long", acquire(1, 5, 0, text(182)))
	add("too long, bad lease and key", "line_too_long", acquire(1, 5, 0, text(90)+" "+text(91)))
	add("too long, bad key", "line_too_long", acquire(1, 5, 30, strings.Repeat("\xff", 182)))
	add("192, bad lease", "bad_lease", acquire(1, 5, 0, text(181)))
	return fs
}

// TestBadOp tries every byte that begins no request. Its error comes at once:
// nothing follows the byte.
func TestBadOp(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for op := range 256 {
			if op == 'A' || op == 'R' || op == '\n' {
				continue
			}
			p := s.dial(t)
			p.send([]byte{byte(op)})
			if err := p.wantEnd("Ebad_op\n"); err != nil {
				t.Fatalf("op %#x: %v", op, err)
			}
		}
		// It comes before everything else that is wrong with the input.
		for name, b := range map[string][]byte{
			"a line":                       []byte("GET / HTTP/1.1\r\n\r\n"),
			"too long":                     []byte("a" + text(400) + "\n"),
			"a lease of 0 and no key":      append([]byte("a\x00\x00"), "owner678\n"...),
			"behind frames":                append([]byte("\n\n"), "\r\n"...),
			"a TLS ClientHello's 1st byte": []byte("\x16\x03\x01"),
		} {
			p := s.dial(t)
			p.send(b)
			if err := p.wantEnd("Ebad_op\n"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		p := s.dial(t)
		p.send([]byte("x"))
		p.closeWrite()
		p.ends("Ebad_op\n")
	})
}

// TestBadFrames sends each malformed frame in one piece, alone and behind
// good ones.
func TestBadFrames(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for i, f := range badFrames() {
			alone := s.dial(t)
			alone.send(f.bytes)
			if err := alone.wantEnd("E" + f.reason + "\n"); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			behind := s.dial(t)
			key, o := fmt.Sprint("behind", i), newOwner()
			behind.send([]byte("\n\n"), acquire(o, 0, 30, key), []byte("\n"), f.bytes)
			if _, err := behind.want('A', o, key); err != nil {
				t.Errorf("%s behind a good frame: %v", f.name, err)
			}
			if err := behind.wantEnd("E" + f.reason + "\n"); err != nil {
				t.Errorf("%s behind a good frame: %v", f.name, err)
			}
		}
	})
}

// TestGoodFields takes and returns a lock with every legal edge of a field.
func TestGoodFields(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for name, key := range goodKeys {
			o := newOwner()
			p.send(acquire(o, 0, 30, key))
			r, err := p.want('A', o, key)
			if err != nil {
				t.Fatalf("key %s: %v", name, err)
			}
			p.refused('T', 0, key) // the key itself is held, not one like it
			defer p.unlock(r.token, key)
		}
		for _, o := range []uint64{0, 1, '\n', newlines, 1 << 63, 1<<64 - 1, 0x0a00000000000000, 0x2020202020202020} {
			p.send(acquire(o, 0, 30, "owner"))
			token := p.expect('A', o, "owner").token
			p.send(acquire(o, 0, 30, "owner"))
			p.expect('T', o, "owner")
			p.unlock(token, "owner")
		}
		for wait := range 256 {
			o := newOwner()
			p.send(acquire(o, byte(wait), byte(1+wait%250), "wait"))
			p.unlock(p.expect('A', o, "wait").token, "wait")
		}
		for lease := 1; lease <= 250; lease++ {
			p.unlock(p.lock("lease", byte(lease)), "lease")
		}
		for _, token := range []uint64{0, '\n', newlines, 1 << 63, 1<<64 - 1, 0x0a << 56} {
			p.send(release(token, "wait"))
			p.expect('N', token, "wait")
		}
	})
}

// TestHeaderNewlines puts 0x0A at every place of the fixed header.
func TestHeaderNewlines(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		for at := range 8 {
			id := uint64('\n') << (8 * at)
			key := fmt.Sprint("newline", at)
			p.send(acquire(id, 10, 10, key), release(id, "free"))
			rs := p.collect(2)
			if rs[0].op != 'A' {
				rs[0], rs[1] = rs[1], rs[0]
			}
			if !rs[0].is('A', id, key) || !rs[1].is('N', id, "free") {
				t.Fatalf("0x0A at %d: got %v", at, rs)
			}
			p.unlock(rs[0].token, key)
		}
	})
}

// TestKeepAlives sends lone newlines, which are never answered.
func TestKeepAlives(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		many := bytes.Repeat([]byte("\n"), 50_000)
		p.send(many)
		token := p.lock("k", 30)
		p.send([]byte("\n"), release(token, "k"), many, release(token, "k"), []byte("\n\n\n"))
		rs := p.collect(2)
		if ops := string([]byte{rs[0].op, rs[1].op}); ops != "RN" && ops != "NR" {
			t.Fatalf("got %v", rs)
		}
		p.send([]byte("\n"))
		p.closeWrite()
		p.ends("")
	})
}

// TestPipeline sends thousands of requests in one write and wants each
// answered once.
func TestPipeline(t *testing.T) {
	const n = 5000
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		var b []byte
		keys := map[uint64]string{}
		for i := range n {
			o := newOwner()
			keys[o] = fmt.Sprintf("key-%d", i)
			b = append(b, acquire(o, 0, 250, keys[o])...)
			if i%7 == 0 {
				b = append(b, '\n')
			}
		}
		go p.write(b)
		held := map[uint64]string{}
		for _, r := range p.collect(n) {
			if r.op != 'A' || keys[r.owner] != r.text || held[r.token] != "" {
				t.Fatalf("got %v", r)
			}
			delete(keys, r.owner)
			held[r.token] = r.text
		}
		b = b[:0]
		for token, key := range held {
			b = append(b, release(token, key)...)
		}
		go p.write(b)
		for _, r := range p.collect(n) {
			if r.op != 'R' || held[r.token] != r.text {
				t.Fatalf("got %v", r)
			}
			delete(held, r.token)
		}
	})
}
