package client

import (
	"math"
	"time"
)

// instant is a monotonic time: nanoseconds since the client was made. It is
// never negative, and the wall clock does not move it.
type instant int64

// never is later than every instant in use.
const never instant = math.MaxInt64

func (t instant) add(d time.Duration) instant { return t + instant(d) }

func (t instant) sub(u instant) time.Duration { return time.Duration(t - u) }

// now reads the clock.
func (c *Client) now() instant { return instant(time.Since(c.epoch)) }

// time returns t as a time.Time that carries the monotonic reading.
func (c *Client) time(t instant) time.Time { return c.epoch.Add(time.Duration(t)) }

// ceilSeconds rounds d, which is not negative, up to whole seconds.
func ceilSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second != 0 {
		n++
	}
	return n
}
