package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const secret = "correct horse battery staple"

var challengeLine = regexp.MustCompile(`^C SHA-256 ([A-Za-z0-9_-]{8})\n$`)

// digest is the 43 characters that answer a nonce (§8.2).
func digest(secret, nonce string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(nonce))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// challenge reads the server's first line and returns its nonce.
func (p *peer) challenge() (nonce string, err error) {
	p.conn.SetReadDeadline(time.Now().Add(patience))
	var line [19]byte
	if _, err := io.ReadFull(p.in, line[:]); err != nil {
		return "", fmt.Errorf("challenge: %w", err)
	}
	m := challengeLine.FindSubmatch(line[:])
	if m == nil {
		return "", fmt.Errorf("%q is no challenge", line)
	}
	return string(m[1]), nil
}

// challenged dials a server with a secret and reads its nonce.
func (s *server) challenged(t testing.TB) (p *peer, nonce string) {
	t.Helper()
	p = s.dial(t)
	nonce, err := p.challenge()
	if err != nil {
		t.Fatal(err)
	}
	return p, nonce
}

// login dials and answers with the digest of the secret.
func (s *server) login(t testing.TB, secret string) *peer {
	t.Helper()
	p, nonce := s.challenged(t)
	p.send([]byte(digest(secret, nonce) + "\n"))
	return p
}

// secretFile writes secrets, one a line.
func secretFile(t testing.TB, secrets ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secrets")
	writeSecrets(t, path, strings.Join(secrets, "\n")+"\n")
	return path
}

func writeSecrets(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHandshake: the right digest opens the connection, and requests may
// follow it in the same packet.
func TestHandshake(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		nonces := map[string]bool{}
		for i := range 100 {
			p, nonce := s.challenged(t)
			if nonces[nonce] {
				t.Fatalf("nonce %q was used twice", nonce)
			}
			nonces[nonce] = true
			key, o := fmt.Sprint("k", i), newOwner()
			if i%2 == 0 {
				p.send([]byte(digest(secret, nonce) + "\n"))
				p.send(acquire(o, 0, 30, key))
			} else {
				p.send([]byte(digest(secret, nonce)+"\n\n"), acquire(o, 0, 30, key), []byte("\n"))
			}
			p.expect('A', o, key)
			p.send([]byte("?")) // the errors of frames are the same behind it
			p.ends("Ebad_op\n")
			p.close()
		}
	}, "AUTH_SECRET="+secret)
}

// TestHandshakeThenPipeline sends thousands of requests right behind the
// digest.
func TestHandshakeThenPipeline(t *testing.T) {
	const n = 2000
	onLoops(t, func(t *testing.T, s *server) {
		p, nonce := s.challenged(t)
		b := []byte(digest(secret, nonce) + "\n")
		for i := range n {
			b = append(b, acquire(uint64(i), 0, 250, fmt.Sprint("k", i))...)
		}
		go p.write(b)
		seen := map[uint64]bool{}
		for _, r := range p.collect(n) {
			if !r.is('A', r.owner, fmt.Sprint("k", r.owner)) || seen[r.owner] {
				t.Fatalf("got %v", r)
			}
			seen[r.owner] = true
		}
	}, "AUTH_SECRET="+secret)
}

// wrongAnswers make a line that is not the right digest out of it.
var wrongAnswers = map[string]func(right string) string{
	"empty":             func(r string) string { return "" },
	"42 characters":     func(r string) string { return r[:42] },
	"44 characters":     func(r string) string { return r + "A" },
	"padded":            func(r string) string { return r + "=" },
	"space behind":      func(r string) string { return r + " " },
	"space in front":    func(r string) string { return " " + r },
	"CRLF":              func(r string) string { return r + "\r" },
	"NUL behind":        func(r string) string { return r + "\x00" },
	"twice":             func(r string) string { return r + r },
	"only the first":    func(r string) string { return r[:1] + strings.Repeat("A", 42) },
	"only the last":     func(r string) string { return strings.Repeat("A", 42) + r[42:] },
	"zeros":             func(r string) string { return strings.Repeat("A", 43) },
	"NULs":              func(r string) string { return strings.Repeat("\x00", 43) },
	"not base64":        func(r string) string { return strings.Repeat("!", 43) },
	"plus and slash":    func(r string) string { return strings.Repeat("+/", 21) + "A" },
	"upper case":        func(r string) string { return swapCase(r) },
	"reversed":          func(r string) string { b := []byte(r); reverse(b); return string(b) },
	"255 characters":    func(r string) string { return r + strings.Repeat("A", 255-43) },
	"a request":         func(r string) string { return string(cut(acquire(1, 0, 30, "k"))) },
	"a space line":      func(r string) string { return strings.Repeat(" ", 43) },
	"hexadecimal":       func(r string) string { b, _ := base64.RawURLEncoding.DecodeString(r); return hex.EncodeToString(b) },
	"the bytes":         func(r string) string { b, _ := base64.RawURLEncoding.DecodeString(r); return firstLine(b) },
	"the secret":        func(r string) string { return secret },
	"standard base64":   func(r string) string { return standard(r) },
	"with its op":       func(r string) string { return "C " + r },
	"UTF-8 in between":  func(r string) string { return r[:20] + "é" + r[22:] },
	"backspace, again":  func(r string) string { return r[:42] + "x\b" + r[42:] },
	"carriage in front": func(r string) string { return "\r" + r[1:] },
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c ^ 0x20
		}
		return c
	}, s)
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}

func firstLine(b []byte) string { b, _, _ = bytes.Cut(b, []byte("\n")); return string(b) }

// standard writes the digest in base64's other alphabet; where that makes no
// difference it is made one.
func standard(r string) string {
	s := strings.NewReplacer("-", "+", "_", "/").Replace(r)
	if s == r {
		s = "+" + r[1:]
	}
	return s
}

// TestWrongDigest: whatever is not the digest of this connection's nonce is
// refused, and no request behind it runs.
func TestWrongDigest(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		try := func(what string, make func(right string) string) {
			t.Helper()
			p, nonce := s.challenged(t)
			line := make(digest(secret, nonce))
			p.send([]byte(line+"\n"), acquire(1, 0, 250, "behind"))
			if err := p.wantEnd("Eauth_failed\n"); err != nil {
				t.Errorf("%s: %q: %v", what, line, err)
			}
			p.close()
		}
		for what, f := range wrongAnswers {
			try(what, f)
		}
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		for at := range 43 {
			try(fmt.Sprint("another character at ", at), func(r string) string {
				// At the end another character may decode to the same bytes:
				// it is another line all the same.
				next := alphabet[(strings.IndexByte(alphabet, r[at])+1)%64]
				return r[:at] + string(next) + r[at+1:]
			})
		}
		// The digest of another connection's nonce, of an old one, and of the
		// right nonce under other secrets.
		other, nonce := s.challenged(t)
		try("of another connection", func(string) string { return digest(secret, nonce) })
		other.send([]byte(digest(secret, nonce) + "\n"))
		other.quiet()
		try("replayed", func(string) string { return digest(secret, nonce) })
		for _, wrong := range []string{"", secret + "\n", secret + " ", secret[1:], strings.ToUpper(secret)} {
			p, nonce := s.challenged(t)
			p.send([]byte(digest(wrong, nonce) + "\n"))
			p.ends("Eauth_failed\n")
		}
		other.lock("behind", 30)
	}, "AUTH_SECRET="+secret)
}

// TestHandshakeSplit cuts the digest and the request behind it at every byte.
func TestHandshakeSplit(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		paced := s.login(t, secret)
		const n = 43 + 1 + 15
		var peers []*peer
		var pieces [][][]byte
		for i := range 2 * n {
			p, nonce := s.challenged(t)
			line := append([]byte(digest(secret, nonce)+"\n"), acquire(uint64(i), 0, 250, fmt.Sprintf("%03d", i))...)
			switch {
			case i == 0:
				pieces = append(pieces, dribbled(line))
			case i < n:
				pieces = append(pieces, [][]byte{line[:i], line[i:]})
			default: // and with the digest wrong in its last character
				line[42] ^= 1
				pieces = append(pieces, [][]byte{line[:1+i%n%42], line[1+i%n%42:]})
			}
			peers = append(peers, p)
		}
		s.paced = []*peer{paced}
		for len(s.paced) < s.loops {
			s.paced = append(s.paced, s.login(t, secret))
		}
		s.feed(t, peers, pieces)
		for i, p := range peers {
			if i < n {
				p.expect('A', uint64(i), fmt.Sprintf("%03d", i))
			} else {
				p.ends("Eauth_failed\n")
			}
		}
	}, "AUTH_SECRET="+secret)
}

// TestHandshakeLine: a line has at most 256 bytes with its newline (§8.4).
func TestHandshakeLine(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for _, c := range []struct{ send, want string }{
			{text(255) + "\n", "Eauth_failed\n"},
			{text(256) + "\n", "Eline_too_long\n"},
			{text(257), "Eline_too_long\n"},
			{text(5000) + "\n", "Eline_too_long\n"},
			{strings.Repeat("\x00", 300), "Eline_too_long\n"},
			{text(255) + "\n" + text(5000), "Eauth_failed\n"},
		} {
			p, _ := s.challenged(t)
			p.send([]byte(c.send))
			if err := p.wantEnd(c.want); err != nil {
				t.Errorf("%d bytes: %v", len(c.send), err)
			}
			p, _ = s.challenged(t)
			for b := []byte(c.send); len(b) > 0; { // and in two pieces
				n := min(len(b), 200)
				p.send(b[:n])
				b = b[n:]
			}
			if err := p.wantEnd(c.want); err != nil {
				t.Errorf("%d bytes in pieces: %v", len(c.send), err)
			}
		}
	}, "AUTH_SECRET="+secret)
}

// TestTwoSecrets: any of the file's secrets opens a connection.
func TestTwoSecrets(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		for _, good := range []string{"first", "second one", "dritter Schlüssel"} {
			s.login(t, good).quiet()
		}
		for _, bad := range []string{"", "third", "first\n", "first\nsecond one", "firstsecond one", "First"} {
			s.login(t, bad).ends("Eauth_failed\n")
		}
	}, "AUTH_SECRET_FILE="+secretFile(t, "first", "second one", "dritter Schlüssel"))
}

// TestNoSecretNoLine: without a secret the server's first bytes are a reply.
func TestNoSecretNoLine(t *testing.T) {
	onLoops(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		p.quiet()
		p.closeWrite()
		p.ends("")
	})
}
