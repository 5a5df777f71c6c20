package loop

import (
	"time"

	"ticketing/lease"
)

// The constants of the protocol (§1, §6, §7, §8) and of this package, each with
// its reason.
const (
	// readBuffer is what one read takes from a socket at most (§7). gnet keeps
	// one such buffer per loop, not per connection.
	readBuffer = 4096

	// replyBatch is how many replies are written at once at most (§7). A batch
	// this full is written even while the session waits for another loop.
	replyBatch = 64

	// unsentReplies is how many replies may wait for a slow client (§7). With more
	// the connection is closed, unless the client reads: every unsentLook at least
	// one has left, which is long enough for a reader to be given a processor, and
	// within unsentPatience it has read down to the limit. What gathers meanwhile is
	// bounded by what a loop can answer in that time.
	unsentReplies  = 256
	unsentLook     = 250 * time.Millisecond
	unsentPatience = time.Second

	// progressTimeout is how long a begun frame may take (§1.6).
	progressTimeout = 5 * time.Second

	// lingerTime and lingerBytes bound what is read and thrown away behind an E (§6).
	lingerTime  = time.Second
	lingerBytes = 64 << 10

	// closingTime is how long a session that ends may take to be sent what it is
	// owed: by other loops that still decide, and to a client that reads slowly.
	// A drain is bounded by its own timeout besides.
	closingTime = 10 * time.Second

	// flushPoll is how often a closing session with unsent bytes is looked at:
	// gnet does not say when its buffer has drained.
	flushPoll = 5 * time.Millisecond

	// pauseBacklog is how much unread input a session that is blocked behind the
	// release lane gathers before reading from its socket is paused; maxBacklog
	// is where it is closed, should pausing be impossible.
	pauseBacklog = 16 << 10
	maxBacklog   = 64 << 10

	// idleRecords is how many bytes of TLS records without data a client may send
	// in a row: dozens of new keys, and not a message that never ends and that
	// crypto/tls would keep up to 64 KiB of.
	idleRecords = 4096

	// sendBuffer is SO_SNDBUF of client connections: small, so that a client
	// that does not read shows early.
	sendBuffer = 64 << 10

	// listenBacklog is more than Linux grants, which is net.core.somaxconn.
	listenBacklog = 1<<16 - 1

	// keepAlive is the idle time and the interval of TCP keep-alive, userTimeout
	// how long sent bytes may stay unacknowledged: how dead peers are found (§1.7).
	keepAlive      = 15 * time.Second
	keepAliveCount = 4
	userTimeout    = 60 * time.Second

	// acceptRetryMin and acceptRetryMax bound the pause after a failed accept:
	// short enough to be back within a second of a shortage of descriptors.
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = 250 * time.Millisecond

	// logInterval is how often a condition that repeats is logged at most.
	logInterval = time.Second

	// stopTimeout is how long the event loops may take to end once all sessions
	// have ended or been cut.
	stopTimeout = time.Second

	// publishWait is how long a reader of snapshots waits for a busy loop before
	// it takes what that loop published last.
	publishWait = 250 * time.Millisecond
)

// Hard caps and ranges of the settings (§7, operations).
const (
	MaxLoops             = 256
	MaxConnectionsCap    = 8192
	MaxWaitersCap        = 16384
	MaxTotalWaitersCap   = 65536
	MaxKeysCap           = 16777216
	ClusterMaxKeys       = 65536 // keys of a cluster; a constant, for all nodes must agree on it
	MaxDrainTimeout      = 5 * time.Minute
	DefaultConnections   = 1024
	DefaultWaiters       = 2048
	DefaultTotalWaiters  = 16384
	DefaultKeys          = 1048576
	DefaultDrainTimeout  = 10 * time.Second
	DescriptorsPerLoop   = 7 + reserved // epoll, eventfds, timerfd and their originals, the reserve
	DescriptorsForItself = 64           // listeners, logs, files read, duplicates while accepting; not admin connections
)

// earlier returns the earlier of two instants.
func earlier(a, b lease.Instant) lease.Instant {
	if a < b {
		return a
	}
	return b
}
