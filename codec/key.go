package codec

import (
	"bytes"
	"math/bits"
	"unicode/utf8"
)

// CheckKey reports whether key is legal (§2): 1 to 128 bytes of valid UTF-8
// with no space and no '\n'. Every other byte is allowed, '\r', NUL and tab
// too. It does not allocate.
func CheckKey[K ~string | ~[]byte](key K) bool {
	if len(key) == 0 || len(key) > MaxKey {
		return false
	}
	text := []byte(key)
	return cleanText(text[plainPrefix(text):])
}

// scanRest finds the '\n' that ends the text at the front of b, of which the
// first plain bytes have been judged. It returns the text's length, or -1 when
// b holds no '\n', and whether that text is free of spaces and valid UTF-8 (§2).
func scanRest(b []byte, plain int) (length int, clean bool) {
	rest := b[plain:]
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		return -1, false
	}
	return plain + n, cleanText(rest[:n])
}

// cleanText reports whether text, which may lack plain bytes from its front,
// is valid UTF-8 without space or '\n'. It only reads text, in a way that the
// compiler can see: CheckKey's strings are not copied.
func cleanText(text []byte) bool {
	for _, c := range text {
		if c == ' ' || c == '\n' {
			return false
		}
	}
	return utf8.Valid(text)
}

// plainPrefix returns how many bytes at the front of b are plain: printable
// ASCII other than the space, or DEL. The byte behind them, if there is one,
// is '\n', a space, another control character or part of a longer UTF-8
// sequence. So one pass finds the end of nearly every text and judges it;
// searching for the '\n' first and judging then takes a third longer at 24
// bytes.
//
// Eight bytes are judged at once: subtracting 0x21 from each sets the top bit
// of those below 0x21, and those above 0x7F have it already. A borrow can only
// spoil the bytes above one that is marked itself, so the lowest mark is exact.
func plainPrefix(b []byte) int {
	const (
		each   = 0x0101010101010101
		lowest = each * (' ' + 1)
		top    = each * 0x80
	)
	i := 0
	for ; i < len(b)-7; i += 8 { // one load, and no bounds check in this form
		word := uint64(b[i]) | uint64(b[i+1])<<8 | uint64(b[i+2])<<16 | uint64(b[i+3])<<24 |
			uint64(b[i+4])<<32 | uint64(b[i+5])<<40 | uint64(b[i+6])<<48 | uint64(b[i+7])<<56
		if marks := (word - lowest | word) & top; marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c <= ' ' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}
