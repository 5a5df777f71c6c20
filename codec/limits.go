package codec

// Limits of the wire, in bytes unless a name says otherwise.
const (
	MaxFrame = 192          // longest frame without its '\n' (§1.2); at MaxFrame+1 bytes without one it is line_too_long
	MaxKey   = 128          // longest key (§2); the shortest is 1 byte
	MaxText  = MaxFrame - 1 // longest text of M, L and E

	MinLease = 1   // shortest lease, in seconds (§2)
	MaxLease = 250 // longest lease, in seconds (§2); 251..255 are kept free and refused
	MaxWait  = 255 // longest wait, in seconds (§2): every value of the byte is legal, and 0 never queues
)

// Bytes in front of a frame's text: the op and its fixed header (§1).
const (
	acquireHead = 1 + 1 + 1 + 8 // op wait lease owner
	releaseHead = 1 + 8         // op token
	grantedHead = 1 + 8 + 8     // op token owner
	answerHead  = 1 + 8         // op owner, or op token
	noticeHead  = 1             // op alone: M, L and E
)

// Largest legal frames with their '\n' (§1.2), for sizing buffers.
const (
	MaxAcquire = acquireHead + MaxKey + 1 // 140
	MaxRelease = releaseHead + MaxKey + 1 // 138
	MaxGranted = grantedHead + MaxKey + 1 // 146: no reply about a key is longer
)
