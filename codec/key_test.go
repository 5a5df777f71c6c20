package codec

import (
	"bytes"
	"strings"
	"testing"
)

// keyCase is a key without '\n' and whether §2 allows it.
type keyCase struct {
	name, key string
	legal     bool
}

func keyCases() []keyCase {
	k := func(n int) string { return strings.Repeat("k", n) }
	cases := []keyCase{
		{"of 0 bytes", "", false},
		{"of 1 byte", "k", true},
		{"of 127 bytes", k(127), true},
		{"of 128 bytes", k(128), true},
		{"of 129 bytes", k(129), false},
		{"of 170 bytes", k(170), false},
		{"of 128 bytes, 64 letters", strings.Repeat("é", 64), true},
		{"of 129 bytes, 65 letters", strings.Repeat("é", 64) + "k", false},
		{"of 130 bytes, the last letter across 128", k(127) + "€", false},
		{"of 128 bytes, the last letter cut", k(126) + "€"[:2], false},

		{"CR", "\r", true},
		{"with CR last", "key\r", true},
		{"NUL", "\x00", true},
		{"of eight NUL", "\x00\x00\x00\x00\x00\x00\x00\x00", true},
		{"tab", "\t", true},
		{"with tab in the ninth place", "12345678\t", true},
		{"DEL", "\x7f", true},
		{"with every other control character", "\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x1f", true},
		{"of ops", "ARTBNMLE", true},

		{"space", " ", false},
		{"space first", " key", false},
		{"space last", "key ", false},
		{"space inside", "a key", false},
		{"space in the eighth place", "1234567 ", false},
		{"space in the ninth place", "12345678 ", false},
		{"space behind a tab", "1\t3 5", false},
		{"space behind a letter of two bytes", "é x", false},
		{"space last of 128", k(127) + " ", false},
		{"no-break space", "a\u00a0b", true},
		{"line separator", "a\u2028b", true},

		{"two bytes lowest", "\xc2\x80", true},
		{"two bytes highest", "\xdf\xbf", true},
		{"three bytes lowest", "\xe0\xa0\x80", true},
		{"below surrogates", "\xed\x9f\xbf", true},
		{"above surrogates", "\xee\x80\x80", true},
		{"three bytes highest", "\xef\xbf\xbf", true},
		{"four bytes lowest", "\xf0\x90\x80\x80", true},
		{"four bytes highest", "\xf4\x8f\xbf\xbf", true},
		{"byte order mark", "\xef\xbb\xbfkey", true},
		{"replacement character", "\ufffd", true},
		{"letters of every size", "aéx€y😀z", true},

		{"continuation alone", "\x80", false},
		{"continuation last", "key\xbf", false},
		{"continuation too many", "é\x80", false},
		{"0xFF", "\xff", false},
		{"0xFE inside", "a\xfeb", false},
		{"two bytes cut", "key\xc3", false},
		{"two bytes cut inside", "\xc3key", false},
		{"three bytes cut at one", "key\xe2", false},
		{"three bytes cut at two", "key\xe2\x82", false},
		{"three bytes cut inside", "\xe2\x82key", false},
		{"four bytes cut at one", "\xf0", false},
		{"four bytes cut at two", "\xf0\x9f", false},
		{"four bytes cut at three", "\xf0\x9f\x98", false},
		{"cut in the eighth place", "1234567\xc3", false},
		{"across the eighth place", "1234567é", true},
		{"surrogate lowest", "\xed\xa0\x80", false},
		{"surrogate highest", "\xed\xbf\xbf", false},
		{"surrogate pair", "\xed\xa0\xbd\xed\xb8\x80", false},
		{"overlong in two bytes", "\xc0\xaf", false},
		{"overlong NUL", "\xc0\x80", false},
		{"overlong highest in two bytes", "\xc1\xbf", false},
		{"overlong in three bytes", "\xe0\x9f\xbf", false},
		{"overlong in four bytes", "\xf0\x8f\xbf\xbf", false},
		{"overlong space", "\xc0\xa0", false},
		{"overlong newline", "\xc0\x8a", false},
		{"above U+10FFFF", "\xf4\x90\x80\x80", false},
		{"lead 0xF5", "\xf5\x80\x80\x80", false},
		{"five bytes", "\xf8\x88\x80\x80\x80", false},
	}
	return cases
}

func TestCheckKey(t *testing.T) {
	type named string
	cases := append(keyCases(),
		keyCase{"newline", "\n", false},
		keyCase{"newline first", "\nkey", false},
		keyCase{"newline last", "key\n", false},
		keyCase{"newline behind a tab", "\tk\n", false},
		keyCase{"newline in the ninth place", "12345678\n", false},
		keyCase{"newline last of 128", strings.Repeat("k", 127) + "\n", false},
	)
	for _, c := range cases {
		if got := CheckKey(c.key); got != c.legal {
			t.Errorf("%s: CheckKey(%q) = %v", c.name, c.key, got)
		}
		if CheckKey([]byte(c.key)) != c.legal || CheckKey(named(c.key)) != c.legal {
			t.Errorf("%s: CheckKey judges %q differently by its type", c.name, c.key)
		}
		if refKey([]byte(c.key)) != c.legal {
			t.Errorf("%s: the reference is wrong about %q", c.name, c.key)
		}
	}
}

// TestPlainPrefix tries every pair of neighbours in a word, across two words
// and in the tail: a byte that is marked may spoil only what lies above it.
func TestPlainPrefix(t *testing.T) {
	slow := func(b []byte) int {
		for i, c := range b {
			if c <= 0x20 || c >= 0x80 {
				return i
			}
		}
		return len(b)
	}
	for _, place := range []int{0, 6, 7, 15, 16, 17} {
		b := bytes.Repeat([]byte("!"), 19)
		for c := range 256 {
			for d := range 256 {
				b[place], b[place+1] = byte(c), byte(d)
				if got, want := plainPrefix(b), slow(b); got != want {
					t.Fatalf("plainPrefix(%q) = %d, want %d", b, got, want)
				}
			}
		}
	}
	for n := range 40 {
		b := bytes.Repeat([]byte("~"), n)
		if got := plainPrefix(b); got != n {
			t.Errorf("plainPrefix of %d plain bytes = %d", n, got)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, c := range keyCases() {
		f.Add([]byte(c.key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := CheckKey(key), refKey(key); got != want {
			t.Fatalf("CheckKey(%q) = %v", key, got)
		}
	})
}
