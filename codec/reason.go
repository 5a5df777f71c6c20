package codec

// Reason is why a server ends a connection: the text of an E frame (§6).
// The zero value, ReasonNone, means that nothing is wrong.
type Reason uint8

// The eight reasons of §6.
const (
	ReasonNone Reason = iota
	ReasonBadOp
	ReasonBadRequest
	ReasonBadLease
	ReasonBadKey
	ReasonLineTooLong
	ReasonAuthFailed
	ReasonNoLeader
	ReasonShuttingDown
)

var reasonWords = [...]string{
	ReasonNone:         "none", // never on the wire
	ReasonBadOp:        "bad_op",
	ReasonBadRequest:   "bad_request",
	ReasonBadLease:     "bad_lease",
	ReasonBadKey:       "bad_key",
	ReasonLineTooLong:  "line_too_long",
	ReasonAuthFailed:   "auth_failed",
	ReasonNoLeader:     "no_leader",
	ReasonShuttingDown: "shutting_down",
}

// String returns the reason's word on the wire. ReasonNone, which is never
// sent, is "none"; a value that is no reason at all is "unknown".
func (r Reason) String() string {
	if int(r) >= len(reasonWords) {
		return "unknown"
	}
	return reasonWords[r]
}

// ParseReason returns the reason whose word on the wire is text, and false
// when text is not one of the eight.
func ParseReason[T ~string | ~[]byte](text T) (Reason, bool) {
	for r := ReasonBadOp; r <= ReasonShuttingDown; r++ {
		if string(text) == reasonWords[r] {
			return r, true
		}
	}
	return ReasonNone, false
}
