package auth

import (
	"encoding/base64"
	"fmt"
	"io"
)

// challengePrefix stands in front of the nonce in the server's line.
const challengePrefix = "C SHA-256 "

// NewNonce makes a nonce of NonceSize base64url characters from random, which
// must be cryptographic (§8.1), as crypto/rand.Reader is.
func NewNonce(random io.Reader) (nonce [NonceSize]byte, err error) {
	var raw [NonceSize * 6 / 8]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return nonce, fmt.Errorf("auth: random nonce: %w", err)
	}
	base64.RawURLEncoding.Encode(nonce[:], raw[:])
	return nonce, nil
}

// AppendChallenge appends the server's line (§8.1), '\n' included.
func AppendChallenge(dst []byte, nonce [NonceSize]byte) []byte {
	dst = append(dst, challengePrefix...)
	dst = append(dst, nonce[:]...)
	return append(dst, '\n')
}

// ParseChallenge reads the server's line (§8.1), given without its '\n'. It
// accepts exactly what AppendChallenge makes.
func ParseChallenge(line []byte) (nonce [NonceSize]byte, ok bool) {
	if len(line) != len(challengePrefix)+NonceSize || string(line[:len(challengePrefix)]) != challengePrefix {
		return nonce, false
	}
	copy(nonce[:], line[len(challengePrefix):])
	for _, c := range nonce {
		if !isBase64URL(c) {
			return [NonceSize]byte{}, false
		}
	}
	return nonce, true
}

func isBase64URL(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
