package loop

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/internal/procs"
)

// Benchmarks of TLS look at the server's processor time alone, so it is a process
// of its own: this test binary, told so by a variable.
const benchServer = "LOOP_BENCH_SERVER" // plain, tls or tls12

func TestMain(m *testing.M) {
	if kind := os.Getenv(benchServer); kind != "" {
		if err := serveBench(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveBench serves on one loop until stdin ends.
func serveBench(kind string) error {
	cfg := Config{
		ListenAddr: "127.0.0.1:0", Loops: 1, MaxConnections: 4096, MaxWaiters: DefaultWaiters,
		MaxTotalWaiters: DefaultTotalWaiters, MaxKeys: DefaultKeys, DrainTimeout: time.Second, Processors: procs.New(1),
	}
	if kind != "plain" {
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(&testing.B{})}}
		if kind == "tls12" {
			cfg.TLS.MaxVersion = tls.VersionTLS12
		}
	}
	srv, err := New(cfg)
	if err != nil {
		return err
	}
	fmt.Println(srv.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return srv.Serve(ctx)
}

// benched is a server process.
type benched struct {
	cmd  *exec.Cmd
	addr string
	tls  *tls.Config // of clients; nil without
}

func startBenched(b *testing.B, kind string) *benched {
	b.Helper()
	s := &benched{cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), benchServer+"="+kind, "GOGC=50")
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = s.cmd.Wait() })
	var line [64]byte
	n, err := out.Read(line[:])
	if err != nil {
		b.Fatal(err)
	}
	s.addr = strings.TrimSpace(string(line[:n]))
	if kind != "plain" {
		s.tls = &tls.Config{InsecureSkipVerify: true, ServerName: "x"}
	}
	return s
}

// busy is the processor time of the server so far.
func (s *benched) busy(b *testing.B) time.Duration {
	var ts unix.Timespec
	clock := int32(^s.cmd.Process.Pid<<3 | 2) // what clock_getcpuclockid(3) makes of a process
	if err := unix.ClockGettime(clock, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// resident is the server's memory in bytes that is its own.
func (s *benched) resident(b *testing.B) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

func (s *benched) dial(b *testing.B, cfg *tls.Config) net.Conn {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		b.Fatal(err)
	}
	if cfg == nil {
		return c
	}
	tc := tls.Client(c, cfg)
	if err := tc.Handshake(); err != nil {
		b.Fatal(err)
	}
	return tc
}

// BenchmarkTLSPairs compares the processor time of a server with and without TLS
// for a pair of acquire and release, 16 connections at work, in turns.
func BenchmarkTLSPairs(b *testing.B) {
	const connections = 16
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			kinds := []string{"plain", "tls", "tls12"}
			servers := make([]*benched, len(kinds))
			drivers := make([][]*driver, len(kinds))
			for i, kind := range kinds {
				servers[i] = startBenched(b, kind)
				for range connections {
					c := servers[i].dial(b, servers[i].tls)
					defer c.Close()
					drivers[i] = append(drivers[i], newDriverOn(c, depth))
				}
			}
			const turns = 20
			spent := make([]time.Duration, len(kinds))
			rounds := 0
			for b.Loop() {
				rounds++
				for i := range kinds {
					before := servers[i].busy(b)
					var all sync.WaitGroup
					for _, d := range drivers[i] {
						all.Go(func() {
							for range turns {
								d.pairs(b)
							}
						})
					}
					all.Wait()
					spent[i] += servers[i].busy(b) - before
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, kind := range kinds {
				b.ReportMetric(float64(spent[i].Nanoseconds())/float64(rounds*turns*connections*depth), kind+"-cpu-ns/pair")
				if i > 0 {
					b.ReportMetric(float64(spent[i])/float64(spent[0]), kind+"/plain")
				}
			}
		})
	}
}

// BenchmarkTLSHandshake is the server's processor time for a connection that
// comes, is answered once, and goes.
func BenchmarkTLSHandshake(b *testing.B) {
	cached := func(cfg *tls.Config) *tls.Config {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return cfg
	}
	for _, c := range []struct {
		name, kind string
		config     func(*tls.Config) *tls.Config
	}{
		{"plain", "plain", func(*tls.Config) *tls.Config { return nil }},
		{"full", "tls", func(cfg *tls.Config) *tls.Config { return cfg }},
		{"resumed", "tls", cached},
		{"full, 1.2", "tls12", func(cfg *tls.Config) *tls.Config { return cfg }},
		{"resumed, 1.2", "tls12", cached},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := startBenched(b, c.kind)
			cfg := c.config(s.tls.Clone())
			once := func() {
				d := newDriverOn(s.dial(b, cfg), 1)
				d.pairs(b)
				d.c.Close()
			}
			once()
			before, n := s.busy(b), 0
			for b.Loop() {
				once()
				n++
			}
			b.ReportMetric(float64((s.busy(b)-before).Microseconds())/float64(n), "cpu-us/connection")
		})
	}
}

// BenchmarkTLSMemory is what a connection that has been used holds of the
// server's memory while it idles.
func BenchmarkTLSMemory(b *testing.B) {
	const connections = 2000
	for _, kind := range []string{"plain", "tls", "tls12"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				s := startBenched(b, kind)
				use := func() net.Conn {
					d := newDriverOn(s.dial(b, s.tls), 1)
					d.pairs(b)
					return d.c
				}
				defer use().Close()
				before := s.resident(b)
				for range connections {
					defer use().Close()
				}
				runtime.GC()
				time.Sleep(tidyQuiet + tidyQuiet) // the server gives back what handshakes have left
				b.ReportMetric(float64(s.resident(b)-before)/connections, "B/connection")
			}
		})
	}
}

// BenchmarkTLSBeside is how long a pair takes one client while 300 others on the
// TLS port are silent, or come without TLS one after another, or are not there;
// in turns.
func BenchmarkTLSBeside(b *testing.B) {
	const others, pairs = 300, 2000
	s := startBenched(b, "tls")
	served := newDriverOn(s.dial(b, s.tls), 1)
	defer served.c.Close()
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, beside := range []string{"nobody", "silent", "plaintext"} {
			var all sync.WaitGroup
			stop := make(chan struct{})
			silent := make([]net.Conn, 0, others)
			switch beside {
			case "silent":
				for range others {
					silent = append(silent, s.dial(b, nil))
				}
			case "plaintext":
				all.Go(func() {
					for range others {
						select {
						case <-stop:
							return
						default:
						}
						c := s.dial(b, nil)
						_, _ = c.Write([]byte{'\n'})
						_, _ = io.Copy(io.Discard, c)
						c.Close()
					}
				})
			}
			for range pairs {
				start := time.Now()
				served.pairs(b)
				took[beside] = append(took[beside], time.Since(start))
			}
			close(stop)
			all.Wait()
			for _, c := range silent {
				c.Close()
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for beside, d := range took {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Nanoseconds())/1e3, beside+"-p50-us")
		b.ReportMetric(float64(d[len(d)*99/100].Nanoseconds())/1e3, beside+"-p99-us")
	}
}
