package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// digest returns what a client that knows secret answers to nonce (§8.2).
func digest(secret []byte, nonce [NonceSize]byte) (text [DigestSize]byte) {
	mac := hmac.New(sha256.New, secret)
	mac.Write(nonce[:])
	var sum [sha256.Size]byte
	base64.RawURLEncoding.Encode(text[:], mac.Sum(sum[:0]))
	return text
}

// AppendResponse appends the client's line (§8.2), '\n' included: the digest
// of nonce under secret.
func AppendResponse(dst, secret []byte, nonce [NonceSize]byte) []byte {
	text := digest(secret, nonce)
	dst = append(dst, text[:]...)
	return append(dst, '\n')
}
