// Command goredis compares the Go client with go-redis: acquire and release
// against SET NX PX and DEL, from the same number of goroutines, in turns in one
// run, each against its own server started for it. It is a module of its own so
// that go-redis stays out of the server's.
//
//	make compare-client
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"ticketing/client"
)

func main() {
	log.SetFlags(0)
	ticketing := flag.String("ticketing", "bin/ticketing", "the server's binary")
	redisServer := flag.String("redis", "redis-server", "the Redis server's binary")
	goroutines := flag.Int("goroutines", 64, "callers at once")
	rounds := flag.Int("rounds", 5, "rounds of both")
	seconds := flag.Float64("seconds", 2, "measured time of each in a round")
	flag.Parse()
	if err := run(*ticketing, *redisServer, *goroutines, *rounds, *seconds); err != nil {
		log.Fatal("goredis: ", err)
	}
}

// pair takes a key and gives it back.
type pair func(ctx context.Context, key string) error

// result is what one turn measured.
type result struct {
	perSecond float64       // pairs
	cpu       time.Duration // of this process, the clients, for one pair
	mallocs   float64       // for one pair
}

func run(ticketing, redisServer string, goroutines, rounds int, seconds float64) error {
	tAddr, stop, err := startTicketing(ticketing)
	if err != nil {
		return err
	}
	defer stop()
	rAddr, stop, err := startRedis(redisServer)
	if err != nil {
		return err
	}
	defer stop()

	c, err := client.New(client.Config{Addrs: []string{tAddr}})
	if err != nil {
		return err
	}
	defer c.Close()
	r := redis.NewClient(&redis.Options{Addr: rAddr, PoolSize: goroutines})
	defer r.Close()
	subjects := []struct {
		name string
		do   pair
		got  []result
	}{
		{name: "ticketing client", do: func(ctx context.Context, key string) error {
			t, err := c.Acquire(ctx, key, 0)
			if err != nil {
				return err
			}
			return t.Release(ctx)
		}},
		{name: "go-redis", do: func(ctx context.Context, key string) error {
			ok, err := r.SetNX(ctx, key, "holder", 30*time.Second).Result()
			if err == nil && !ok {
				err = fmt.Errorf("%s is held", key)
			}
			if err != nil {
				return err
			}
			return r.Del(ctx, key).Err()
		}},
	}
	for range rounds {
		for i := range subjects {
			s := &subjects[i]
			got, err := measure(s.do, goroutines, seconds)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.got = append(s.got, got)
		}
	}
	fmt.Printf("%d goroutines, medians of %d rounds of %.1f s\n", goroutines, rounds, seconds)
	for _, s := range subjects {
		fmt.Printf("%-17s %8.0f pairs/s  client CPU %6.2f µs/pair  %5.2f allocations/pair\n", s.name,
			median(s.got, func(r result) float64 { return r.perSecond }),
			median(s.got, func(r result) float64 { return float64(r.cpu.Nanoseconds()) / 1e3 }),
			median(s.got, func(r result) float64 { return r.mallocs }))
	}
	var ratios []result
	for i := range subjects[0].got {
		ratios = append(ratios, result{perSecond: subjects[0].got[i].perSecond / subjects[1].got[i].perSecond})
	}
	fmt.Printf("pairs/s, ticketing client to go-redis, median of the rounds: %.1f\n",
		median(ratios, func(r result) float64 { return r.perSecond }))
	return nil
}

func measure(do pair, goroutines int, seconds float64) (result, error) {
	ctx := context.Background()
	var pairs atomic.Int64
	var failed atomic.Pointer[error]
	turn := func(d time.Duration) {
		var wg sync.WaitGroup
		end := time.Now().Add(d)
		for i := range goroutines {
			wg.Go(func() {
				key := fmt.Sprintf("compare-client-key-%05d", i) // 24 bytes
				for time.Now().Before(end) && failed.Load() == nil {
					if err := do(ctx, key); err != nil {
						failed.Store(&err)
						return
					}
					pairs.Add(1)
				}
			})
		}
		wg.Wait()
	}
	turn(300 * time.Millisecond)
	pairs.Store(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := processCPU(), time.Now()
	turn(time.Duration(seconds * float64(time.Second)))
	elapsed := time.Since(start)
	cpu = processCPU() - cpu
	runtime.ReadMemStats(&after)
	if err := failed.Load(); err != nil {
		return result{}, *err
	}
	n := pairs.Load()
	return result{
		perSecond: float64(n) / elapsed.Seconds(),
		cpu:       cpu / time.Duration(n),
		mallocs:   float64(after.Mallocs-before.Mallocs) / float64(n),
	}, nil
}

func median(rs []result, f func(result) float64) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, f(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func startTicketing(binary string) (addr string, stop func(), err error) {
	cmd := exec.Command(binary, "serve")
	cmd.Env = append(os.Environ(), "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=", "LOG_LEVEL=error")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "client ")
	if err != nil || !ok {
		stop()
		return "", nil, fmt.Errorf("%s did not say where it listens: %q, %v", binary, line, err)
	}
	return addr, stop, nil
}

func startRedis(binary string) (addr string, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return "", nil, err
	}
	addr = ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(binary, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("%s does not answer on %s", binary, addr)
}
