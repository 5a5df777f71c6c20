package auth

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const testNonce = "aZ09-_xy"

var testSecrets = [][]byte{[]byte("first"), []byte("second, longer than one block of SHA-256: " + strings.Repeat("s", 64)), []byte("\x00third")}

// refHandshake reads a stream a byte at a time and returns the verdict and how
// many bytes must be there for it. right are the lines that open the
// connection, without '\n'.
func refHandshake(stream []byte, right []string) (decided int, v Verdict) {
	line := ""
	for i, c := range stream {
		if c == '\n' {
			for _, r := range right {
				if line == r {
					return i + 1, Accepted
				}
			}
			return i + 1, Denied
		}
		line += string([]byte{c})
		if len(line) == 256 {
			return i + 1, TooLong
		}
	}
	return 0, NeedMore
}

// checkHandshake is the runner of every test of Step: it holds the verdict on
// each prefix of the stream, and with it on every split, against the reference.
func checkHandshake(t testing.TB, stream []byte, all [][]byte) {
	t.Helper()
	secrets, err := NewSecrets(all...)
	if err != nil {
		t.Fatal(err)
	}
	var right []string
	for _, secret := range all {
		right = append(right, refDigest(secret, testNonce))
	}
	decided, verdict := refHandshake(stream, right)
	before := bytes.Clone(stream)
	h := Handshake{Nonce: [NonceSize]byte([]byte(testNonce))}
	for end := range len(stream) + 1 {
		wantN, want := 0, verdict
		if end < decided {
			want = NeedMore
		}
		if want == Accepted {
			wantN = decided
		}
		if n, v := h.Step(stream[:end:end], secrets); n != wantN || v != want {
			t.Fatalf("%q: %d, %v, want %d, %v", stream[:end], n, v, wantN, want)
		}
	}
	if !bytes.Equal(stream, before) {
		t.Fatalf("Step wrote on its input")
	}
}

func TestHandshake(t *testing.T) {
	const requests = "A\x05\x05\n\n\n\n\n\n\n\nkey\n\n"
	right := refDigest(testSecrets[0], testNonce)
	last := strings.IndexByte(refAlphabet, right[DigestSize-1])
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name, stream string
		want         Verdict
	}{
		{"nothing", "", NeedMore},
		{"a line without its end", right, NeedMore},
		{"first secret", right + "\n", Accepted},
		{"second secret", refDigest(testSecrets[1], testNonce) + "\n", Accepted},
		{"third secret", refDigest(testSecrets[2], testNonce) + "\n", Accepted},
		{"requests behind", right + "\n" + requests, Accepted},
		{"keep-alive behind", right + "\n\n", Accepted},
		{"a long request behind", right + "\n" + x(500), Accepted},

		{"wrong", x(DigestSize) + "\n", Denied},
		{"wrong, requests behind", x(DigestSize) + "\n" + requests, Denied},
		{"wrong, then right", x(DigestSize) + "\n" + right + "\n", Denied},
		{"another secret", refDigest([]byte("fourth"), testNonce) + "\n", Denied},
		{"another nonce", refDigest(testSecrets[0], "aZ09-_xz") + "\n", Denied},
		{"empty line", "\n" + right + "\n", Denied},
		{"42 characters", right[:DigestSize-1] + "\n", Denied},
		{"42 characters, the first missing", right[1:] + "\n", Denied},
		{"44 characters", right + "A\n", Denied},
		{"padding", right + "=\n", Denied},
		{"carriage return", right + "\r\n", Denied},
		{"carriage return for the last character", right[:DigestSize-1] + "\r\n", Denied},
		{"space in front", " " + right + "\n", Denied},
		{"space behind", right + " \n", Denied},
		{"NUL behind", right + "\x00\n", Denied},
		{"twice", right + right + "\n", Denied},
		{"same bytes, other spelling", right[:DigestSize-1] + string(refAlphabet[last^1]) + "\n", Denied},
		{"hexadecimal", fmt.Sprintf("%x\n", right), Denied},
		{"upper case", strings.ToUpper(right) + "\n", Denied},
		{"the challenge sent back", "C SHA-256 " + testNonce + "\n", Denied},

		{"255 bytes so far", x(255), NeedMore},
		{"255 bytes and the end, 256 in all", x(255) + "\n", Denied},
		{"right and then 212 more", right + x(212) + "\n", Denied},
		{"256 bytes so far", x(256), TooLong},
		{"256 bytes and the end, 257 in all", x(256) + "\n", TooLong},
		{"right and then 213 more", right + x(213) + "\n", TooLong},
		{"too long, then right", x(256) + "\n" + right + "\n", TooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			secrets, err := NewSecrets(testSecrets...)
			if err != nil {
				t.Fatal(err)
			}
			h := Handshake{Nonce: [NonceSize]byte([]byte(testNonce))}
			n, v := h.Step([]byte(c.stream), secrets)
			wantN := 0
			if c.want == Accepted {
				wantN = DigestSize + 1
			}
			if v != c.want || n != wantN {
				t.Errorf("%q: %d, %v, want %d, %v", c.stream, n, v, wantN, c.want)
			}
			checkHandshake(t, []byte(c.stream), testSecrets)
		})
	}
}

// TestHandshakeOtherAlphabet: '+' and '/' of the other base64 are wrong.
func TestHandshakeOtherAlphabet(t *testing.T) {
	tried := 0
	for i := range 64 {
		secret := [][]byte{fmt.Append(nil, "secret ", i)}
		right := refDigest(secret[0], testNonce)
		other := strings.NewReplacer("-", "+", "_", "/").Replace(right)
		checkHandshake(t, []byte(right+"\n"), secret)
		checkHandshake(t, []byte(other+"\n"), secret)
		if other != right {
			tried++
		}
	}
	if tried == 0 {
		t.Fatal("no digest has a character of its alphabet alone")
	}
}

// TestHandshakeOneBit: a digest that is wrong in one bit anywhere is wrong.
func TestHandshakeOneBit(t *testing.T) {
	right := refDigest(testSecrets[1], testNonce) + "\n"
	for i := range DigestSize * 8 {
		stream := []byte(right)
		stream[i/8] ^= 1 << (i % 8)
		checkHandshake(t, stream, testSecrets)
	}
}

// TestHandshakeNoSecrets: without secrets nobody gets in.
func TestHandshakeNoSecrets(t *testing.T) {
	h := Handshake{Nonce: [NonceSize]byte([]byte(testNonce))}
	for _, line := range []string{"\n", refDigest(nil, testNonce) + "\n"} {
		if n, v := h.Step([]byte(line), nil); n != 0 || v != Denied {
			t.Errorf("%q: %d, %v", line, n, v)
		}
	}
}

func TestVerdictNames(t *testing.T) {
	for v, want := range []string{"need more", "accepted", "denied", "too long", "unknown"} {
		if got := Verdict(v).String(); got != want {
			t.Errorf("verdict %d is %q, want %q", v, got, want)
		}
	}
}

// checkBothSides lets a server and a client that were given secrets of their
// own go through a handshake.
func checkBothSides(t testing.TB, random, server, client []byte, behind string) {
	t.Helper()
	nonce, err := NewNonce(bytes.NewReader(random))
	if err != nil {
		t.Fatal(err)
	}
	challenge := AppendChallenge(nil, nonce)
	if len(challenge) > MaxLine || bytes.IndexByte(challenge, '\n') != len(challenge)-1 {
		t.Fatalf("the challenge is %q", challenge)
	}
	seen, ok := ParseChallenge(challenge[:len(challenge)-1])
	if !ok || seen != nonce {
		t.Fatalf("the client reads %q as %q, %v", challenge, seen, ok)
	}
	secrets, err := NewSecrets([]byte("an older one"), server)
	if err != nil {
		t.Fatal(err)
	}
	h := Handshake{Nonce: nonce}
	n, v := h.Step(append(AppendResponse(nil, client, seen), behind...), secrets)
	want := Denied
	if bytes.Equal(server, client) {
		want = Accepted
	}
	if v != want || v == Accepted && n != DigestSize+1 {
		t.Fatalf("server %q, client %q: %d, %v", server, client, n, v)
	}
}

func TestBothSides(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
		raw, secret := make([]byte, 6), make([]byte, 1+seed)
		random.Read(raw)
		random.Read(secret)
		other := bytes.Clone(secret)
		other[int(seed)/2] ^= 1
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			checkBothSides(t, raw, secret, secret, "A and so on")
			checkBothSides(t, raw, secret, other, "A and so on")
		})
	}
}

// FuzzHandshake tries lines around a right digest, which no fuzzer would find.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte(""), uint8(0), []byte("\n"))
	f.Add([]byte(""), uint8(1), []byte("\nA\x01\x01"))
	f.Add([]byte(" "), uint8(2), []byte("\n"))
	f.Add([]byte(""), uint8(2), []byte("\r\n"))
	f.Add(bytes.Repeat([]byte("x"), 256-DigestSize), uint8(0), []byte("\n"))
	f.Add(bytes.Repeat([]byte("x"), 255), uint8(3), []byte("\n"))
	f.Add(bytes.Repeat([]byte("x"), 256), uint8(3), []byte("\n"))
	f.Fuzz(func(t *testing.T, before []byte, which uint8, behind []byte) {
		if len(before) > 600 || len(behind) > 600 {
			t.Skip("nothing in a longer stream is new")
		}
		stream := bytes.Clone(before)
		if int(which) < len(testSecrets) {
			stream = append(stream, refDigest(testSecrets[which], testNonce)...)
		}
		checkHandshake(t, append(stream, behind...), testSecrets)
	})
}

func FuzzBothSides(f *testing.F) {
	f.Add([]byte("random"), []byte("secret"), []byte("secret"))
	f.Add([]byte("\xff\x00\n\r \t"), []byte("secret"), []byte("secret "))
	f.Fuzz(func(t *testing.T, random, server, client []byte) {
		// An HMAC key is padded with zeros, so keys that differ in those alone
		// are one key; an empty secret is none.
		if len(random) < 6 || len(server) == 0 || bytes.HasSuffix(server, []byte{0}) || bytes.HasSuffix(client, []byte{0}) {
			t.Skip()
		}
		checkBothSides(t, random, server, client, "\n")
	})
}

func BenchmarkStep(b *testing.B) {
	secrets, err := NewSecrets(testSecrets[0])
	if err != nil {
		b.Fatal(err)
	}
	h := Handshake{Nonce: [NonceSize]byte([]byte(testNonce))}
	line := AppendResponse(nil, testSecrets[0], h.Nonce)
	b.ReportAllocs()
	for b.Loop() {
		if _, v := h.Step(line, secrets); v != Accepted {
			b.Fatal(v)
		}
	}
}
