package codec

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// CheckKey reports whether key is legal (§2): 1 to 128 bytes of valid UTF-8
// with no space and no '\n'. Every other byte is allowed, '\r', NUL and tab
// too. It does not allocate.
func CheckKey[K ~string | ~[]byte](key K) bool {
	return len(key) >= 1 && len(key) <= MaxKey && legalText([]byte(key))
}

func legalText(text []byte) bool {
	i := plainPrefix(text)
	rest := text[i:]
	return len(rest) == 0 || bytes.IndexByte(rest, '\n') < 0 && cleanText(rest)
}

// scanText finds the '\n' that ends the text at the front of b. It returns the
// text's length, or -1 when b holds no '\n', and whether that text is free of
// spaces and valid UTF-8 (§2). The length is not judged.
//
// A text of plain bytes, which nearly every key is, costs one pass.
func scanText(b []byte) (length int, clean bool) {
	i := plainPrefix(b)
	if i == len(b) {
		return -1, false
	}
	if b[i] == '\n' {
		return i, true
	}
	n := bytes.IndexByte(b[i:], '\n')
	if n < 0 {
		return -1, false
	}
	return i + n, cleanText(b[i : i+n])
}

// cleanText judges a text that holds no '\n', or the rest of one behind plain
// bytes.
func cleanText(text []byte) bool {
	return bytes.IndexByte(text, ' ') < 0 && utf8.Valid(text)
}

// plainPrefix returns how many bytes at the front of b are plain: printable
// ASCII other than the space, or DEL. The byte behind them, if there is one,
// is '\n', a space, another control character or part of a longer UTF-8
// sequence.
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
	for ; len(b)-i >= 8; i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
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
