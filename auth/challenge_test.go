package auth

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestNewNonce(t *testing.T) {
	for _, c := range []struct{ random, want string }{
		{"\x00\x00\x00\x00\x00\x00", "AAAAAAAA"},
		{"\xff\xff\xff\xff\xff\xff", "________"},
		{"\x00\x10\x83\x10\x51\x87", "ABCDEFGH"},
		{"\xfb\xef\xbe\xfb\xef\xbe", "--------"},
	} {
		random := strings.NewReader(c.random + "rest")
		nonce, err := NewNonce(random)
		if err != nil || string(nonce[:]) != c.want || random.Len() != len("rest") {
			t.Errorf("of %q: %q, %v, %d bytes left", c.random, nonce, err, random.Len())
		}
	}
}

func TestNewNonceFails(t *testing.T) {
	broken := errors.New("no randomness")
	for _, c := range []struct {
		random io.Reader
		want   error
	}{
		{io.MultiReader(strings.NewReader("12345"), errReader{broken}), broken},
		{strings.NewReader("12345"), io.ErrUnexpectedEOF},
		{strings.NewReader(""), io.EOF},
	} {
		if nonce, err := NewNonce(c.random); !errors.Is(err, c.want) || nonce != [NonceSize]byte{} {
			t.Errorf("nonce %q, %v, want %v", nonce, err, c.want)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestAppendChallenge(t *testing.T) {
	nonce := [NonceSize]byte([]byte("aZ09-_xy"))
	if got := string(AppendChallenge([]byte("old"), nonce)); got != "oldC SHA-256 aZ09-_xy\n" {
		t.Errorf("the challenge is %q", got)
	}
}

func TestParseChallenge(t *testing.T) {
	for _, c := range []struct{ line, nonce string }{
		{"C SHA-256 aZ09-_xy", "aZ09-_xy"},
		{"C SHA-256 AAAAAAAA", "AAAAAAAA"},
		{"C SHA-256 ________", "________"},
		{"C SHA-256 aZ09-_x", ""},
		{"C SHA-256 aZ09-_xyz", ""},
		{"C SHA-256 aZ09-_xy\r", ""},
		{"C SHA-256 aZ09-_xy\n", ""},
		{"C SHA-256 aZ09-_x\r", ""},
		{"C SHA-256 aZ09-_x=", ""},
		{"C SHA-256 aZ09-_x+", ""},
		{"C SHA-256 aZ09-_x/", ""},
		{"C SHA-256 +Z09-_xy", ""},
		{"C SHA-256 aZ09 _xy", ""},
		{"C SHA-256 aZ09\x00_xy", ""},
		{"C SHA-256 aZ09-\xc3\xa9y", ""},
		{"C SHA-256  aZ09-_x", ""},
		{"C  SHA-256 aZ09-_x", ""},
		{"C SHA-512 aZ09-_xy", ""},
		{"c SHA-256 aZ09-_xy", ""},
		{"Eshutting_down", ""},
		{"", ""},
	} {
		nonce, ok := ParseChallenge([]byte(c.line))
		if ok != (c.nonce != "") || ok && string(nonce[:]) != c.nonce || !ok && nonce != [NonceSize]byte{} {
			t.Errorf("%q: nonce %q, %v", c.line, nonce, ok)
		}
	}
	for c := range 256 {
		line := append([]byte("C SHA-256 aaaaaaa"), byte(c))
		if _, ok := ParseChallenge(line); ok != strings.Contains(refAlphabet, string([]byte{byte(c)})) {
			t.Errorf("a nonce with %q: %v", byte(c), ok)
		}
	}
}

// FuzzParseChallenge: what is accepted is exactly what AppendChallenge makes.
func FuzzParseChallenge(f *testing.F) {
	f.Add([]byte("C SHA-256 aZ09-_xy"))
	f.Add([]byte("C SHA-256 aZ09-_x+"))
	f.Fuzz(func(t *testing.T, line []byte) {
		nonce, ok := ParseChallenge(line)
		if again := AppendChallenge(nil, nonce); ok != bytes.Equal(again, append(line, '\n')) {
			t.Fatalf("%q: %v, and its nonce makes %q", line, ok, again)
		}
	})
}
