package codec

// Op is the first byte of a frame. A and R mean one thing in a request and
// another in a reply, so each has two names.
type Op byte

// Ops of requests, client to server (§1).
const (
	OpAcquire   Op = 'A'
	OpRelease   Op = 'R'
	OpKeepAlive Op = '\n' // the frame that is only '\n': ignored, never answered
)

// Ops of replies, server to client (§1).
const (
	OpGranted        Op = 'A'
	OpTimeout        Op = 'T' // the wait ran out
	OpBusy           Op = 'B' // a queue or a capacity of the server is full
	OpReleased       Op = 'R'
	OpNotHeld        Op = 'N' // that token does not hold that key (now)
	OpMoved          Op = 'M' // cluster only (§9)
	OpLeadershipLost Op = 'L' // cluster only (§9)
	OpError          Op = 'E' // the server closes the connection (§6)
)
