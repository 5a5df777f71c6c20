// Package auth owns the handshake: the server's challenge, the digest that
// answers it, and the secrets that make one right. It carries out §8.1 to §8.4
// of the protocol.
//
//	server                                   client
//	NewNonce, AppendChallenge ──────────────▶ ParseChallenge
//	Handshake.Step            ◀────────────── AppendResponse
//
// It never reads a socket, a file or a clock: the caller brings the bytes that
// have arrived, the contents of the secret file, and a source of randomness,
// and keeps the 10 s of [Timeout] itself. It never prints a secret, in an error
// or otherwise.
//
// The server's loop and its configuration call it on one side, the client on
// the other.
package auth
