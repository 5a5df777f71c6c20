package auth

import "time"

const (
	// NonceSize is the length of a nonce, in base64url characters (§8.1):
	// 48 random bits.
	NonceSize = 8
	// DigestSize is the length of a digest: 32 bytes of HMAC-SHA-256 in
	// base64url without padding (§8.2).
	DigestSize = 43
	// MaxLine is the longest line of the handshake with its '\n', either way
	// (§8.4).
	MaxLine = 256
	// Timeout is how long the whole handshake may take from accept, that of
	// TLS included (§8.5). The caller keeps it.
	Timeout = 10 * time.Second
)
