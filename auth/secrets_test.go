package auth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// accepts says whether the digest under secret is right for s.
func accepts(s *Secrets, secret string) bool {
	h := Handshake{Nonce: [NonceSize]byte([]byte(testNonce))}
	_, v := h.Step([]byte(refDigest([]byte(secret), testNonce)+"\n"), s)
	return v == Accepted
}

func TestNewSecrets(t *testing.T) {
	if _, err := NewSecrets(); err == nil {
		t.Error("no secret at all was taken")
	}
	if _, err := NewSecrets(nil); err == nil {
		t.Error("a nil secret was taken")
	}
	if _, err := NewSecrets([]byte("hush"), []byte{}, []byte("quiet")); err == nil || !strings.Contains(err.Error(), "2") ||
		strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "quiet") {
		t.Errorf("an empty secret among others: %v", err)
	}
	given := []byte("hush")
	s, err := NewSecrets(given, []byte(" "))
	if err != nil || s.Len() != 2 {
		t.Fatal(s.Len(), err)
	}
	given[0] = 'X'
	if !accepts(s, "hush") || accepts(s, "Xush") {
		t.Error("a secret changed with the caller's bytes")
	}
	if !accepts(s, " ") || accepts(s, "") || accepts(s, "hus") || accepts(s, "hush ") {
		t.Error("a secret is not taken byte for byte")
	}
	if (*Secrets)(nil).Len() != 0 {
		t.Error("nil has secrets")
	}
}

func TestParseSecrets(t *testing.T) {
	for _, c := range []struct {
		name, file string
		secrets    []string
		err        string // what the error must name
	}{
		{"one", "hush\n", []string{"hush"}, ""},
		{"one, no newline at the end", "hush", []string{"hush"}, ""},
		{"two", "hush\nquiet\n", []string{"hush", "quiet"}, ""},
		{"two, no newline at the end", "hush\nquiet", []string{"hush", "quiet"}, ""},
		{"of one byte", "h", []string{"h"}, ""},
		{"blank lines", "\n\nhush\n\n \t \nquiet\n\n\n", []string{"hush", "quiet"}, ""},
		{"spaces count", " hush\t\n", []string{" hush\t"}, ""},
		{"any byte but newline", "a\x00b\xff\rc\u2028d\v\f\n", []string{"a\x00b\xff\rc\u2028d\v\f"}, ""},
		{"no comments", "# hush\n", []string{"# hush"}, ""},
		{"the same twice", "hush\nhush\n", []string{"hush", "hush"}, ""},

		{"nothing", "", nil, "no secret"},
		{"only newlines", "\n\n", nil, "no secret"},
		{"only blanks", " \n\t\n", nil, "no secret"},
		{"carriage return", "hush\r\n", nil, "line 1"},
		{"carriage return at the end of the file", "quiet\nhush\r", nil, "line 2"},
		{"two carriage returns", "hush\r\r\n", nil, "line 1"},
		{"carriage return on a blank line", "quiet\n\n\r\nhush\n", nil, "line 3"},
		{"carriage return on the third line", "quiet\n\nhush\r\n", nil, "line 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSecrets([]byte(c.file))
			if c.err != "" {
				if s != nil || err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, %v, want an error that names %q", s, err, c.err)
				}
				if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "quiet") {
					t.Fatalf("a secret is in the error: %v", err)
				}
				return
			}
			if err != nil || s.Len() != len(c.secrets) {
				t.Fatalf("%d secrets, %v, want %d", s.Len(), err, len(c.secrets))
			}
			for _, secret := range c.secrets {
				if !accepts(s, secret) {
					t.Errorf("%q is not accepted", secret)
				}
			}
			if accepts(s, "") || accepts(s, c.file) && len(c.secrets) > 1 {
				t.Error("something else is accepted")
			}
		})
	}
}

// TestSecretsArePrintedNowhere tries what a careless log line would.
func TestSecretsArePrintedNowhere(t *testing.T) {
	s, err := NewSecrets([]byte("hush"), []byte("quiet"))
	if err != nil {
		t.Fatal(err)
	}
	type config struct{ Secrets *Secrets }
	asJSON, err := json.Marshal(config{s})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{string(asJSON)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, s), fmt.Sprintf(verb, *s), fmt.Sprintf(verb, config{s}))
		if got := fmt.Sprintf(verb, s); got != "auth.Secrets(2)" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	for _, text := range printed {
		for _, secret := range []string{"hush", "quiet", "68757368", "104 117 115 104"} {
			if strings.Contains(strings.ToLower(text), secret) {
				t.Errorf("a secret is in %s", text)
			}
		}
	}
}

// FuzzParseSecrets holds the parser against one that goes byte by byte.
func FuzzParseSecrets(f *testing.F) {
	for _, file := range []string{"", "hush", "hush\nquiet\n", "\n \t\nhush\n", "hush\r\n", "\r", "a\rb\n"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var want []string
		line, blank, refused := "", true, false
		for _, c := range append([]byte(nil), append(file, '\n')...) {
			if c != '\n' {
				line += string([]byte{c})
				blank = blank && (c == ' ' || c == '\t')
				continue
			}
			if line != "" && line[len(line)-1] == '\r' {
				refused = true
			}
			if !blank {
				want = append(want, line)
			}
			line, blank = "", true
		}
		s, err := ParseSecrets(file)
		if (err != nil) != (refused || len(want) == 0) {
			t.Fatalf("%q: %v", file, err)
		}
		if err != nil {
			return
		}
		if s.Len() != len(want) {
			t.Fatalf("%q: %d secrets, want %d", file, s.Len(), len(want))
		}
		for i, secret := range s.all {
			if string(secret) != want[i] {
				t.Fatalf("%q: secret %d is %q, want %q", file, i, secret, want[i])
			}
		}
	})
}
