package codec

import (
	"encoding/binary"
	"errors"
)

// Reply is one frame from the server (§1).
type Reply struct {
	Op    Op
	Token uint64 // OpGranted, OpReleased, OpNotHeld; otherwise 0
	Owner uint64 // OpGranted, OpTimeout, OpBusy; otherwise 0
	Text  []byte // the key; the address of OpMoved and OpLeadershipLost; the reason of OpError. Aliases the input.
}

// What ParseReply finds wrong. None can be recovered from: what follows in the
// stream cannot be trusted.
var (
	ErrReplyOp      = errors.New("codec: reply with an unknown op")
	ErrReplyTooLong = errors.New("codec: reply longer than 192 bytes")
	ErrReplyKey     = errors.New("codec: reply about an illegal key")
	ErrReplyToken   = errors.New("codec: grant with token 0")
)

// ParseReply reads the frame at the front of b, the bytes from a server that
// have arrived and are not yet consumed. It has the three outcomes of
// [ParseRequest]: a frame of n bytes, '\n' included, in r; n == 0 and no error,
// the frame is not whole yet; or one of the errors above. Texts of M, L and E
// are handed on as they are, even empty or unknown ([ParseReason] tells). What
// is in r is only meaningful when n > 0.
func ParseReply(b []byte, r *Reply) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	op := Op(b[0])
	var head int
	switch op {
	case OpGranted:
		head = grantedHead
	case OpTimeout, OpBusy, OpReleased, OpNotHeld:
		head = answerHead
	case OpMoved, OpLeadershipLost, OpError:
		head = noticeHead
	default:
		return 0, ErrReplyOp
	}
	if len(b) <= head {
		return 0, nil
	}
	text := b[head:min(len(b), MaxFrame+1)]
	length, clean := plainPrefix(text), true
	if length == len(text) || text[length] != '\n' {
		length, clean = scanRest(text, length)
	}
	if length < 0 {
		if len(b) > MaxFrame {
			return 0, ErrReplyTooLong
		}
		return 0, nil
	}
	r.Op, r.Token, r.Owner = op, 0, 0
	switch op {
	case OpGranted:
		r.Token, r.Owner = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])
		if r.Token == 0 {
			return 0, ErrReplyToken
		}
	case OpTimeout, OpBusy:
		r.Owner = binary.BigEndian.Uint64(b[1:])
	case OpReleased, OpNotHeld:
		r.Token = binary.BigEndian.Uint64(b[1:])
	}
	if head != noticeHead && (length == 0 || length > MaxKey || !clean) {
		return 0, ErrReplyKey
	}
	end := head + length
	r.Text = b[head:end:end]
	return end + 1, nil
}

// AppendGranted appends the grant of key under token (at least 1) to the
// attempt owner (§3).
func AppendGranted[K ~string | ~[]byte](dst []byte, token, owner uint64, key K) []byte {
	dst = append(dst, byte(OpGranted))
	dst = binary.BigEndian.AppendUint64(dst, token)
	dst = binary.BigEndian.AppendUint64(dst, owner)
	dst = append(dst, key...)
	return append(dst, '\n')
}

// AppendTimeout says that the wait of the attempt owner ran out (§3).
func AppendTimeout[K ~string | ~[]byte](dst []byte, owner uint64, key K) []byte {
	return appendAnswer(dst, OpTimeout, owner, key)
}

// AppendBusy says that a limit of §7 refuses the attempt owner.
func AppendBusy[K ~string | ~[]byte](dst []byte, owner uint64, key K) []byte {
	return appendAnswer(dst, OpBusy, owner, key)
}

// AppendReleased says that token held key and no longer does (§4).
func AppendReleased[K ~string | ~[]byte](dst []byte, token uint64, key K) []byte {
	return appendAnswer(dst, OpReleased, token, key)
}

// AppendNotHeld says that token does not hold key (§4).
func AppendNotHeld[K ~string | ~[]byte](dst []byte, token uint64, key K) []byte {
	return appendAnswer(dst, OpNotHeld, token, key)
}

// AppendMoved names the leader's client address, host:port, to a client whose
// unanswered requests were not executed (§9).
func AppendMoved(dst []byte, addr string) []byte {
	return appendNotice(dst, OpMoved, addr)
}

// AppendLeadershipLost names the new leader's client address, host:port, to a
// client whose unanswered requests are indeterminate (§9).
func AppendLeadershipLost(dst []byte, addr string) []byte {
	return appendNotice(dst, OpLeadershipLost, addr)
}

// AppendError appends the frame that ends a connection (§6). It panics when
// reason is not one of the eight.
func AppendError(dst []byte, reason Reason) []byte {
	if reason == ReasonNone {
		panic("codec: AppendError with no reason")
	}
	return appendNotice(dst, OpError, reasonWords[reason])
}

// appendAnswer appends a frame of an op, one number and a key.
func appendAnswer[K ~string | ~[]byte](dst []byte, op Op, id uint64, key K) []byte {
	dst = append(dst, byte(op))
	dst = binary.BigEndian.AppendUint64(dst, id)
	dst = append(dst, key...)
	return append(dst, '\n')
}

// appendNotice appends a frame of an op and a text right behind it.
func appendNotice(dst []byte, op Op, text string) []byte {
	dst = append(dst, byte(op))
	dst = append(dst, text...)
	return append(dst, '\n')
}
