package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ticketing/auth"
	"ticketing/loop"
)

// The engine of the server keeps goroutines for later.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"))
}

// serve starts a real server and returns its address.
func serve(t *testing.T, change func(*loop.Config)) string {
	t.Helper()
	cfg := loop.Config{
		ListenAddr: "127.0.0.1:0", Loops: 2, MaxConnections: 64, MaxWaiters: 2048, MaxTotalWaiters: 16384, MaxKeys: 1 << 20,
		DrainTimeout: 5 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	srv, err := loop.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return srv.Addr().String()
}

// small is a load for a busy machine.
func small(addr string) Config {
	cfg := Defaults()
	cfg.Addrs = []string{addr}
	cfg.Connections, cfg.Pipeline, cfg.Threads, cfg.Keys = 4, 8, 2, 1000
	cfg.Warmup, cfg.Ops = 0, 1500
	return cfg
}

// All a run by Ops is to do, it does, and an honest server is found honest.
func TestHonestServer(t *testing.T) {
	addr := serve(t, nil)
	for name, change := range map[string]func(*Config){
		"uniform":                 func(*Config) {},
		"zipf":                    func(c *Config) { c.Dist, c.Keys = Zipf, 100 },
		"one key":                 func(c *Config) { c.Dist = Single },
		"one key, held":           func(c *Config) { c.Dist, c.Hold, c.Ops = Single, 200*time.Microsecond, 500 },
		"no waiting":              func(c *Config) { c.Wait, c.Keys = 0, 4 },
		"one thread":              func(c *Config) { c.Threads, c.Keys = 1, 3 },
		"one attempt at a time":   func(c *Config) { c.Connections, c.Pipeline, c.Ops = 1, 1, 300 },
		"more threads than conns": func(c *Config) { c.Connections, c.Threads = 2, 8 },
		"shortest keys":           func(c *Config) { c.Keys, c.KeySize = 64, 1 },
		"longest keys":            func(c *Config) { c.KeySize = 128 },
		"many attempts":           func(c *Config) { c.Pipeline, c.Dist, c.Keys = 200, Zipf, 50 },
		"open loop":               func(c *Config) { c.Rate, c.Ops = 20_000, 2000 },
		"open loop, held":         func(c *Config) { c.Rate, c.Ops, c.Hold = 2000, 400, time.Millisecond },
		"warm-up":                 func(c *Config) { c.Warmup = 30 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := small(addr)
			change(&cfg)
			result, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			n := result.Counts
			if result.Violated() > 0 || n.Attempts() != cfg.Ops || n.Released != n.Granted || n.NotHeld != 0 || n.Busy != 0 {
				t.Errorf("%+v of %d, %v", n, cfg.Ops, result.Violations)
			}
			if refused := n.Timeout > 0; refused != (cfg.Wait == 0) {
				t.Errorf("%d timeouts with a wait of %v", n.Timeout, cfg.Wait)
			}
			if result.Unanswered+result.Indeterminate+int64(result.Ends.Count) != 0 {
				t.Errorf("unanswered %d, indeterminate %d, %+v", result.Unanswered, result.Indeterminate, result.Ends)
			}
			checkSums(t, result)
			if l := result.Latency["granted"]; cfg.Hold > 0 && cfg.Dist == Single && l.P50 < int64(cfg.Hold) {
				t.Errorf("waiting for a held key took %v at p50", time.Duration(l.P50))
			}
		})
	}
}

// checkSums compares the counts, the series and the distributions of a result.
func checkSums(t *testing.T, r *Result) {
	t.Helper()
	var sum Counts
	last := -1.0
	for _, p := range r.Series {
		sum.Granted += p.Counts.Granted
		sum.Timeout += p.Counts.Timeout
		sum.Released += p.Counts.Released
		if p.From <= last || p.Seconds <= 0 || p.Counts.Granted > 0 && !(0 < p.P50 && p.P50 <= p.P99 && p.P99 <= p.Max) {
			t.Errorf("point %+v after %v", p, last)
		}
		last = p.From
	}
	if sum.Granted != r.Counts.Granted || sum.Timeout != r.Counts.Timeout || sum.Released != r.Counts.Released {
		t.Errorf("the series has %+v, the result %+v", sum, r.Counts)
	}
	for kind, want := range r.Counts.list() {
		if l := r.Latency[kindNames[kind]]; r.Late == 0 && l.Count != want {
			t.Errorf("%s: %d latencies of %d replies", kindNames[kind], l.Count, want)
		}
	}
	if r.Seconds <= 0 || r.CPU.Generator <= 0 || r.CPU.Process < r.CPU.Generator/2 {
		t.Errorf("%v s, CPU %+v", r.Seconds, r.CPU)
	}
}

// A holder that is slower than its lease is told so, and nobody is blamed.
func TestHeldLongerThanTheLease(t *testing.T) {
	t.Parallel()
	cfg := small(serve(t, nil))
	cfg.Lease, cfg.Hold, cfg.Keys, cfg.Ops = time.Second, 1200*time.Millisecond, 4, 8
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if result.Violated() > 0 || result.Counts.NotHeld == 0 || result.Counts.Attempts() != cfg.Ops {
		t.Errorf("%+v %v", result.Counts, result.Violations)
	}
}

// Waits run out at a server that keeps time.
func TestWaitsRunOut(t *testing.T) {
	t.Parallel()
	cfg := small(serve(t, nil))
	cfg.Wait, cfg.Hold, cfg.Dist, cfg.Ops, cfg.Pipeline = time.Second, 1500*time.Millisecond, Single, 4, 1
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if result.Violated() > 0 || result.Counts.Timeout != 3 || result.Latency["timeout"].P50 < int64(time.Second) {
		t.Errorf("%+v %v", result.Counts, result.Violations)
	}
}

// A run by time measures that time, after the warm-up, and tells of it.
func TestDuration(t *testing.T) {
	t.Parallel()
	cfg := small(serve(t, nil))
	cfg.Ops, cfg.Duration, cfg.Warmup = 0, 400*time.Millisecond, 150*time.Millisecond
	var warm, measured int
	cfg.Progress = func(p Progress) {
		if p.Warming {
			warm++
		} else {
			measured++
		}
		if p.Elapsed <= 0 || p.Elapsed > p.Of+10*time.Second || p.Warming != (p.Of == cfg.Warmup) {
			t.Errorf("%+v", p)
		}
	}
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if result.Violated() > 0 || result.Seconds < 0.4 || result.Seconds > 10 || result.Counts.Granted == 0 {
		t.Errorf("%v s, %+v, %v", result.Seconds, result.Counts, result.Violations)
	}
	checkSums(t, result)
	if warm == 0 || measured != len(result.Series) {
		t.Errorf("told %d times of the warm-up, and %d times of %d intervals", warm, measured, len(result.Series))
	}
}

// What is asked of a server beyond what it can do waits for its turn, and that
// waiting is in the latencies.
func TestOverload(t *testing.T) {
	t.Parallel()
	cfg := small(serve(t, nil))
	cfg.Connections, cfg.Pipeline, cfg.Threads, cfg.Dist = 1, 1, 1, Single
	cfg.Hold, cfg.Rate = 2*time.Millisecond, 2000 // four times what one slot can do
	cfg.Ops, cfg.Duration = 0, 400*time.Millisecond
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	due, begun := int64(800), result.Counts.Attempts()
	if result.Unsent < due/2 || result.Unsent+begun+result.Late < due-1 || result.Unsent+begun+result.Late > due+1 {
		t.Errorf("%d due, %d answered, %d late, %d unsent", due, begun, result.Late, result.Unsent)
	}
	if l := result.Latency["granted"]; l.Max < int64(100*time.Millisecond) || result.Violated() > 0 {
		t.Errorf("max %v, %v", time.Duration(l.Max), result.Violations)
	}
}

// The end of the context is the end of the run; what is held is given back.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	cfg := small(serve(t, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Ops, cfg.Hold = 0, time.Hour
	var tell sync.Once
	cfg.Progress = func(Progress) { tell.Do(cancel) }
	cfg.Duration, cfg.Connections = 10*time.Minute, 2
	result, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Interrupted || result.Violated() > 0 || result.Unanswered != 0 || result.Counts.Granted == 0 {
		t.Errorf("%+v", result)
	}
}

func TestNoSession(t *testing.T) {
	t.Parallel()
	secrets, err := auth.NewSecrets([]byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	guarded := serve(t, func(c *loop.Config) { c.Secrets = secrets })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"refused":      {func(c *Config) { c.Addrs = []string{closed.Addr().String()} }, "connection refused"},
		"wrong secret": {func(c *Config) { c.Secret = []byte("wrong") }, "E auth_failed"},
		"no secret":    {func(c *Config) {}, "the server asks for a secret"},
		"too many":     {func(c *Config) { c.Addrs, c.Connections = []string{serve(t, nil)}, 65 }, "connection"},
	} {
		cfg := small(guarded)
		c.change(&cfg)
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrNoSession) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := small(guarded)
	cfg.Secret = []byte("right")
	cfg.Addrs = []string{closed.Addr().String(), guarded}
	if result, err := Run(t.Context(), cfg); err != nil || result.Counts.Released != cfg.Ops || result.Setup.Addr != guarded {
		t.Errorf("%v, %+v", err, result)
	}
}

// A connection that ends is no violation, and its requests are nobody's fault.
func TestConnectionsThatEnd(t *testing.T) {
	t.Parallel()
	cfg := lying(newLiar(t, func(l *liar) {
		l.release = func(l *liar, c *liarConn, _ uint64, _ string) bool {
			if l.grants > 100 && c.id == 0 {
				c.conn.Close()
				return true
			}
			return false
		}
	}))
	cfg.Keys = 1 << 20
	result, err := Run(t.Context(), cfg)
	if err != nil || result.Violated() > 0 || result.Ends.Count != 1 || result.Indeterminate == 0 {
		t.Errorf("%v, %+v, %d indeterminate, %v", err, result.Ends, result.Indeterminate, result.Violations)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	secrets, err := auth.NewSecrets([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, func(c *loop.Config) { c.Secrets = secrets })
	cfg := small(tlsFront(t, addr))
	cfg.Secret, cfg.TLS, cfg.Ops = []byte("s"), &tls.Config{InsecureSkipVerify: true}, 500
	result, err := Run(t.Context(), cfg)
	if err != nil || result.Violated() > 0 || result.Counts.Released != cfg.Ops || !result.Setup.TLS {
		t.Fatalf("%v, %+v", err, result)
	}
	cfg.TLS = &tls.Config{} // which trusts nobody here
	if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrNoSession) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}

// tlsFront serves TLS in front of a server without.
func tlsFront(t *testing.T, addr string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			outer, err := ln.Accept()
			if err != nil {
				return
			}
			inner, err := net.Dial("tcp", addr)
			if err != nil {
				outer.Close()
				continue
			}
			carry := func(dst, src net.Conn) { _, _ = io.Copy(dst, src); dst.Close(); src.Close() }
			all.Go(func() { carry(outer, inner) })
			all.Go(func() { carry(inner, outer) })
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return ln.Addr().String()
}
