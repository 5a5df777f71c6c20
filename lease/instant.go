package lease

import (
	"math"
	"time"
)

// An Instant is a point on the monotonic clock of this process, in nanoseconds.
// It has nothing to do with the time of day, and one process's instants mean
// nothing to another. 0 is not a time in use: a field may say "none" with it.
type Instant int64

// Never comes after every instant.
const Never Instant = math.MaxInt64

// Add returns the instant d after t.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns how much later t is than u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Seconds is a wait or a lease as a frame carries it (§1, §2): whole seconds in
// one byte.
func Seconds(n uint8) time.Duration { return time.Duration(n) * time.Second }
