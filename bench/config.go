package bench

import (
	"crypto/tls"
	"fmt"
	"math"
	"runtime"
	"time"

	"ticketing/codec"
)

// Limits of a Config. What has one is refused outside it, never clamped.
const (
	MaxConnections = 8192 // protocol §7
	MaxPipeline    = 4096
	MaxThreads     = 64
	MaxKeys        = 4 << 20 // 64 bytes of memory each
	MaxRate        = 50e6
	MaxDuration    = 24 * time.Hour
	MaxOps         = 1e12

	// zipfExponent is how steep Zipf is: the most wanted key is asked for
	// 2^0.99 times as often as the second.
	zipfExponent = 0.99
)

// Dist is how the keys of attempts are drawn.
type Dist string

const (
	Uniform Dist = "uniform" // every key alike
	Zipf    Dist = "zipf"    // key i in proportion to 1/(i+1)^0.99
	Single  Dist = "single"  // always the same one
)

// Config says what to do to which server. [Defaults] has a value for each field
// but Addrs, Duration and Ops.
type Config struct {
	Addrs  []string    // host:port; of several the first that executes requests, or where it points to
	Secret []byte      // nil: the server asks for none (protocol §8)
	TLS    *tls.Config // nil: none. It costs the generator two goroutines a connection

	Connections int // 1..MaxConnections
	Pipeline    int // attempts under way on each connection at most, 1..MaxPipeline
	Threads     int // of the generator, 1..MaxThreads

	Keys    int // how many there are, 1..MaxKeys
	KeySize int // bytes, 1..128 and enough to tell Keys apart
	Dist    Dist

	Wait  time.Duration // whole seconds, 0..255 s
	Lease time.Duration // whole seconds, 1..250 s
	Hold  time.Duration // from grant to release

	// Rate is how many attempts begin a second over all connections: the open
	// loop. 0 is the closed loop.
	Rate float64

	// The run is measured for Duration, or until Ops attempts are answered: one
	// of them is set.
	Duration time.Duration
	Ops      int64
	Warmup   time.Duration // before it, not measured

	// Patience is how long after its time an answer may come before it counts as
	// lost. The time is the end of the wait for an acquire, at once for a release.
	Patience time.Duration

	Seed     uint64         // of keys; 0 takes a random one
	Progress func(Progress) // told about every interval, by one goroutine; may be nil
}

// Defaults returns a Config that only lacks what to talk to and for how long.
func Defaults() Config {
	return Config{
		Connections: 16, Pipeline: 16, Threads: max(1, runtime.GOMAXPROCS(0)/2),
		Keys: 100_000, KeySize: 24, Dist: Uniform,
		Wait: 30 * time.Second, Lease: 30 * time.Second,
		Warmup: time.Second, Patience: 10 * time.Second,
	}
}

// ConfigError is a field that is not allowed.
type ConfigError struct {
	Field   string // "KeySize"
	Value   string
	Problem string // what is allowed
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Field, e.Value, e.Problem)
}

// Validate returns a *ConfigError for the first field that is not allowed.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name      string
		value     int64
		low, high int64
	}{
		{"Connections", int64(c.Connections), 1, MaxConnections},
		{"Pipeline", int64(c.Pipeline), 1, MaxPipeline},
		{"Threads", int64(c.Threads), 1, MaxThreads},
		{"Keys", int64(c.Keys), 1, MaxKeys},
		{"KeySize", int64(c.KeySize), 1, codec.MaxKey},
		{"Ops", c.Ops, 0, MaxOps},
	} {
		if f.value < f.low || f.value > f.high {
			return &ConfigError{f.name, fmt.Sprint(f.value), fmt.Sprintf("allowed is %d..%d", f.low, f.high)}
		}
	}
	for _, f := range []struct {
		name             string
		value, low, high time.Duration
		whole            bool
	}{
		{"Wait", c.Wait, 0, codec.MaxWait * time.Second, true},
		{"Lease", c.Lease, codec.MinLease * time.Second, codec.MaxLease * time.Second, true},
		{"Hold", c.Hold, 0, MaxDuration, false},
		{"Duration", c.Duration, 0, MaxDuration, false},
		{"Warmup", c.Warmup, 0, MaxDuration, false},
		{"Patience", c.Patience, time.Millisecond, MaxDuration, false},
	} {
		if f.value < f.low || f.value > f.high {
			return &ConfigError{f.name, f.value.String(), fmt.Sprintf("allowed is %v..%v", f.low, f.high)}
		}
		if f.whole && f.value%time.Second != 0 {
			return &ConfigError{f.name, f.value.String(), "allowed are whole seconds"}
		}
	}
	switch {
	case len(c.Addrs) == 0:
		return &ConfigError{"Addrs", "empty", "allowed is host:port"}
	case c.Dist != Uniform && c.Dist != Zipf && c.Dist != Single:
		return &ConfigError{"Dist", fmt.Sprintf("%q", c.Dist), "allowed is uniform, zipf or single"}
	case c.KeySize < digitsFor(c.Keys):
		return &ConfigError{"KeySize", fmt.Sprint(c.KeySize), fmt.Sprintf("too short to tell %d keys apart; allowed is %d..%d", c.Keys, digitsFor(c.Keys), codec.MaxKey)}
	case math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > MaxRate:
		return &ConfigError{"Rate", fmt.Sprint(c.Rate), fmt.Sprintf("allowed is 0..%.0f", MaxRate)}
	case (c.Duration == 0) == (c.Ops == 0):
		return &ConfigError{"Duration", c.Duration.String(), fmt.Sprintf("and Ops is %d: allowed is one of them", c.Ops)}
	}
	return nil
}

// interval is how long one point of the result's series is: a hundred in a run
// of 10 s to 100 s, six hundred in the longest.
func (c *Config) interval() time.Duration {
	if c.Ops > 0 {
		return 250 * time.Millisecond
	}
	return max(min(c.Duration/100, time.Second), 100*time.Millisecond, c.Duration/600)
}
