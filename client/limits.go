package client

import (
	"time"

	"ticketing/codec"
)

// Ranges of §1 and their defaults. Durations are rounded up to whole seconds
// before they are compared, and never clamped.
const (
	maxWait  = codec.MaxWait * time.Second
	minLease = codec.MinLease * time.Second
	maxLease = codec.MaxLease * time.Second

	defaultWait  = 30 * time.Second
	defaultLease = 30 * time.Second
)

// Instants that client.md fixes.
const (
	// immediateLimit is the transport deadline of an attempt with wait 0 (§2.4).
	immediateLimit = 5 * time.Second
	// settleGrace is how long after a healthy server's verdict is due an
	// acquire still waits for it (§2.7).
	settleGrace = 250 * time.Millisecond
	// stallLimit is how late the keeper must be to conclude that the whole
	// process stood still: a suspended machine, no processor to be had. Verdicts
	// that came in time may lie unread in the socket then, and the reader gets
	// settleGrace once more to find them.
	stallLimit = 50 * time.Millisecond
	// releaseLimit is what a release has, reconnects and retries included (§3.1).
	releaseLimit = 5 * time.Second
	// drainLimit is how long a session whose Write failed is still read: what
	// the server said before may be in the socket, and may say that nothing was
	// executed. A connection that is really broken ends at once.
	drainLimit = 20 * time.Millisecond
	// closeGrace is how long Close lets releases that are on their way be
	// answered: one round trip, also over a slow line. Acquires get none.
	closeGrace = 250 * time.Millisecond
)

// Bounds on what a client keeps.
const (
	// maxCompensations bounds the compensating releases that are queued or
	// unanswered (§3.3). Beyond it the lease returns the key.
	maxCompensations = 1024
	// maxAbandoned bounds the abandoned owners one session remembers. It is
	// the most waiters a server can be told to keep: more are never answered.
	maxAbandoned = 65536
	// defaultSessions and maxSessions bound Config.Sessions.
	defaultSessions = 2
	maxSessions     = 1024
)

// Sizes of the session's buffers.
const (
	// batchFrames is how many frames one Write carries at most: enough that
	// the system call is a small part of their cost, and few enough that the
	// buffer (at most 36 KiB) stays in the cache.
	batchFrames = 256
	// wakeFrames is the backlog per woken writer beyond which another writer
	// is woken too: below it one Write for all is cheaper than two.
	wakeFrames = 64
	// readBuffer holds some 300 replies of usual size in one Read.
	readBuffer = 16 << 10
)

// Connecting.
const (
	// connectLimit bounds the dial and the TLS handshake. With several
	// addresses it is shorter, so that a host that is gone does not use up the
	// 5 s of an immediate attempt.
	connectLimit     = 5 * time.Second
	connectLimitMany = 2 * time.Second
	// challengeLimit bounds the wait for the server's challenge when a secret
	// is configured. A server sends it as soon as it has accepted.
	challengeLimit = 3 * time.Second

	// backoffMin and backoffMax bound the delay between rounds of failed
	// connections; it doubles in between, and the upper half is random.
	backoffMin = 25 * time.Millisecond
	backoffMax = time.Second
	// backoffElection bounds that delay for electionRounds rounds, some 3 s, when
	// a server said that no leader is known, or named one that is gone: another
	// is being elected, and who waits for long waits for nothing.
	backoffElection = 100 * time.Millisecond
	electionRounds  = 30
	// freeSteers is how many M or L in a row are followed at once: a cluster
	// that has just elected may need two. More are a ping-pong and back off.
	freeSteers = 3
	// refusalRounds is how often in a row every address must refuse what no
	// waiting changes (secret, certificate, plaintext against TLS) before the
	// waiting calls are told. A secret being rotated passes within it.
	refusalRounds = 6
)
