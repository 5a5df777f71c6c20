package loop

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"ticketing/auth"
	"ticketing/internal/procs"
)

// Config is what a Server needs to know. New checks it with Validate.
type Config struct {
	ListenAddr      string          // host:port of the client protocol; port 0 takes any free one
	Loops           int             // event loops and shards, 1..256
	MaxConnections  int             // client connections, 1..8192 (§7)
	MaxWaiters      int             // waiters per key, 1..16384 (§7)
	MaxTotalWaiters int             // waiters in all, 1..65536 (§7)
	MaxKeys         int             // active keys, 1..16777216 (§7)
	DrainTimeout    time.Duration   // longest drain, 0..5m; 0 does not wait
	Secrets         *auth.Secrets   // nil: no authentication
	TLS             *tls.Config     // nil: no TLS; with a certificate, and authorities if clients must show one (§8.7)
	Logger          *slog.Logger    // nil: silent
	Processors      *procs.Governor // told of work off the loops; nil: nobody is
	Replica         Replica         // the replicated log of a cluster; nil: a single node
}

// Validate reports the first field that is out of its range, by the name of its
// setting, with its value and what is allowed.
func (c *Config) Validate() error {
	if c.ListenAddr == "" {
		return fmt.Errorf("LISTEN_ADDR is empty: allowed is host:port")
	}
	for _, f := range []struct {
		name            string
		value, min, max int
	}{
		{"LOOPS", c.Loops, 1, MaxLoops},
		{"MAX_CONNECTIONS", c.MaxConnections, 1, MaxConnectionsCap},
		{"MAX_WAITERS", c.MaxWaiters, 1, MaxWaitersCap},
		{"MAX_TOTAL_WAITERS", c.MaxTotalWaiters, 1, MaxTotalWaitersCap},
		{"MAX_KEYS", c.MaxKeys, 1, MaxKeysCap},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%s is %d: allowed is %d..%d", f.name, f.value, f.min, f.max)
		}
	}
	if c.Replica != nil && c.MaxKeys > ClusterMaxKeys {
		return fmt.Errorf("MAX_KEYS is %d: allowed in a cluster is 1..%d", c.MaxKeys, ClusterMaxKeys)
	}
	if c.DrainTimeout < 0 || c.DrainTimeout > MaxDrainTimeout {
		return fmt.Errorf("DRAIN_TIMEOUT is %v: allowed is 0s..%v", c.DrainTimeout, MaxDrainTimeout)
	}
	return nil
}
