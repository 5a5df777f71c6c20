package codec

import (
	"encoding/binary"
)

// Request is one frame from a client (§1).
type Request struct {
	Op    Op
	Wait  uint8  // acquire: seconds, 0 never queues; otherwise 0
	Lease uint8  // acquire: seconds, MinLease..MaxLease; otherwise 0
	ID    uint64 // acquire: the owner; release: the token; otherwise 0
	Key   []byte // aliases the input that was parsed; nil for a keep-alive
}

// ParseRequest reads the frame at the front of b, the bytes of a connection
// that have arrived and are not yet consumed. It has three outcomes:
//
//   - n > 0: a whole, legal frame of n bytes, '\n' included, stands in r. A
//     keep-alive has n = 1, Op OpKeepAlive and nothing else.
//   - n == 0 and ReasonNone: the frame is not whole yet. Call again with the
//     same bytes and more behind them. If no more will come, or not in time, a
//     frame that was begun (b is not empty) is bad_request (§1.6).
//   - any other reason: the stream is malformed at this frame, and the server
//     says so and closes (§6).
//
// The checks run in the order of §1.4, each as soon as §1 lets it. What is in
// r is only meaningful when n > 0.
func ParseRequest(b []byte, r *Request) (n int, reason Reason) {
	if len(b) == 0 {
		return 0, ReasonNone
	}
	var head int
	switch Op(b[0]) {
	case OpAcquire:
		if len(b) <= acquireHead {
			return 0, ReasonNone
		}
		r.Wait, r.Lease, r.ID = b[1], b[2], binary.BigEndian.Uint64(b[3:])
		head = acquireHead
	case OpRelease:
		if len(b) <= releaseHead {
			return 0, ReasonNone
		}
		r.Wait, r.Lease, r.ID = 0, 0, binary.BigEndian.Uint64(b[1:])
		head = releaseHead
	case OpKeepAlive:
		*r = Request{Op: OpKeepAlive}
		return 1, ReasonNone
	default:
		return 0, ReasonBadOp
	}
	text := b[head:min(len(b), MaxFrame+1)]
	length, clean := plainPrefix(text), true
	if length == len(text) || text[length] != '\n' {
		length, clean = scanRest(text, length)
	}
	if length < 0 {
		if len(b) > MaxFrame {
			return 0, ReasonLineTooLong
		}
		return 0, ReasonNone
	}
	if head == acquireHead && (r.Lease < MinLease || r.Lease > MaxLease) {
		return 0, ReasonBadLease
	}
	if length == 0 || length > MaxKey || !clean {
		return 0, ReasonBadKey
	}
	r.Op = Op(b[0])
	end := head + length
	r.Key = b[head:end:end]
	return end + 1, ReasonNone
}

// AppendAcquire appends an acquire (§1) to dst. The wait and the lease are in
// seconds. The caller answers for a legal lease and key ([CheckKey]).
func AppendAcquire[K ~string | ~[]byte](dst []byte, owner uint64, wait, lease uint8, key K) []byte {
	dst = append(dst, byte(OpAcquire), wait, lease)
	dst = binary.BigEndian.AppendUint64(dst, owner)
	dst = append(dst, key...)
	return append(dst, '\n')
}

// AppendRelease appends a release (§1) to dst. The caller answers for a legal
// key ([CheckKey]).
func AppendRelease[K ~string | ~[]byte](dst []byte, token uint64, key K) []byte {
	return appendAnswer(dst, OpRelease, token, key)
}
