package auth

import "bytes"

// Verdict is what Handshake.Step makes of the bytes so far.
type Verdict uint8

const (
	// NeedMore: the client's line is not whole yet. Left by further bytes, or
	// by the caller when Timeout is over.
	NeedMore Verdict = iota
	// Accepted: the line is right and the connection is open. Final.
	Accepted
	// Denied: the line is wrong: E auth_failed, then close. Final.
	Denied
	// TooLong: the line is longer than MaxLine: E line_too_long, then close.
	// Final.
	TooLong
)

// String names the verdict for logs and tests.
func (v Verdict) String() string {
	switch v {
	case NeedMore:
		return "need more"
	case Accepted:
		return "accepted"
	case Denied:
		return "denied"
	case TooLong:
		return "too long"
	}
	return "unknown"
}

// Handshake is the server's side of one connection that has been sent the
// challenge with this nonce.
type Handshake struct {
	Nonce [NonceSize]byte // as in the challenge; never used for another connection
}

// Step judges the client's line (§8.3, §8.4). data is everything that has
// arrived and was not consumed, from the line's first byte; after NeedMore the
// caller comes back with the same bytes and more behind them, cut anywhere.
//
// When Accepted, n is the length of the line with its '\n': what follows are
// requests, which Step has not looked at. Otherwise n is 0, and after Denied or
// TooLong no byte behind may be taken for a request.
//
// Right is exactly the 43 characters of the digest and '\n': no padding, no
// '\r', no other spelling of the same bytes.
func (h *Handshake) Step(data []byte, secrets *Secrets) (n int, v Verdict) {
	end := bytes.IndexByte(data[:min(len(data), MaxLine)], '\n')
	switch {
	case end < 0 && len(data) < MaxLine:
		return 0, NeedMore
	case end < 0:
		return 0, TooLong
	case !secrets.accept(data[:end], h.Nonce):
		return 0, Denied
	}
	return end + 1, Accepted
}
