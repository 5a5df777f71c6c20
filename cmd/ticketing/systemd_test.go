package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/loop"
)

// notifySocket is a socket as systemd gives one; its channel has what is told.
func notifySocket(t *testing.T) (string, <-chan string) {
	t.Helper()
	path := t.TempDir() + "/notify"
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	told := make(chan string, 1000)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			told <- string(buffer[:n])
		}
	}()
	return path, told
}

func next(t *testing.T, told <-chan string) string {
	t.Helper()
	select {
	case text := <-told:
		return text
	case <-time.After(patience):
		t.Fatal("systemd is told nothing")
		return ""
	}
}

func monotonicMicros(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / 1000
}

func TestSystemdIsTold(t *testing.T) {
	path, told := notifySocket(t)
	s := start(t, command(t, []string{"NOTIFY_SOCKET=" + path}))
	if got := next(t, told); got != "READY=1" {
		t.Fatalf("told %q, want READY=1", got)
	}
	before := monotonicMicros(t)
	s.signal(syscall.SIGHUP)
	got := next(t, told)
	var at int64
	if _, err := fmt.Sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%d", &at); err != nil {
		t.Fatalf("told %q: %v", got, err)
	}
	if after := monotonicMicros(t); at < before || at > after {
		t.Errorf("reloading since %d, which is not in %d..%d", at, before, after)
	}
	if got := next(t, told); got != "READY=1" {
		t.Fatalf("told %q, want READY=1 after the reload", got)
	}
	s.signal(syscall.SIGTERM)
	if got := next(t, told); got != "STOPPING=1" {
		t.Fatalf("told %q, want STOPPING=1", got)
	}
	s.exits(exitDone)
}

func TestSystemdWatchdog(t *testing.T) {
	path, told := notifySocket(t)
	start(t, command(t, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=20000"}))
	beats := 0
	for beats < 5 {
		if got := next(t, told); got == "WATCHDOG=1" {
			beats++
		} else if got != "READY=1" {
			t.Fatalf("told %q", got)
		}
	}
}

// The watchdog is another process's: nothing is to be told.
func TestSystemdWatchdogOfAnother(t *testing.T) {
	path, told := notifySocket(t)
	s := start(t, command(t, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"}))
	if got := next(t, told); got != "READY=1" {
		t.Fatalf("told %q", got)
	}
	for range 50 {
		s.dial().refused()
	}
	s.signal(syscall.SIGTERM)
	if got := next(t, told); got != "STOPPING=1" {
		t.Fatalf("told %q, want nothing before STOPPING=1", got)
	}
}

func TestSystemdSocketGone(t *testing.T) {
	s := start(t, command(t, []string{"NOTIFY_SOCKET=" + t.TempDir() + "/none"}))
	s.logs(0, "systemd was not told")
	s.dial().refused()
}

// Signs of life stop as soon as one loop does not answer.
func TestAlive(t *testing.T) {
	const patience = time.Minute
	for name, c := range map[string]struct {
		ages []time.Duration
		want bool
	}{
		"all just now":      {[]time.Duration{0, 0}, true},
		"all in time":       {[]time.Duration{30 * time.Second, 0}, true},
		"one hangs":         {[]time.Duration{0, 61 * time.Second}, false},
		"all hang":          {[]time.Duration{time.Hour, time.Hour}, false},
		"no loops":          {nil, false},
		"one never started": {[]time.Duration{0, 1 << 62}, false},
	} {
		s := snapshooter(func(context.Context, int) loop.Snapshot {
			var snap loop.Snapshot
			for _, age := range c.ages {
				snap.Loops = append(snap.Loops, loop.LoopSnapshot{At: time.Now().Add(-age)})
			}
			return snap
		})
		if got := s.alive(context.Background(), patience); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A hanging loop is logged and systemd hears nothing until it answers again.
func TestWatchdogOfAHangingLoop(t *testing.T) {
	path, told := notifySocket(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "2000")
	log := &logTail{grown: make(chan struct{})}
	m := manager{newLogger(log, "info", "text")}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	looks := 0
	go func() {
		defer close(ended)
		m.watch(ctx, func(context.Context, int) loop.Snapshot {
			at := time.Now().Add(time.Hour) // answers, however slow this machine is
			if looks++; looks <= 20 {
				at = time.Time{}
			}
			return loop.Snapshot{Loops: []loop.LoopSnapshot{{At: at}}}
		})
	}()
	if got := next(t, told); got != "WATCHDOG=1" {
		t.Errorf("told %q", got)
	}
	cancel()
	<-ended
	text, _ := log.look()
	if n := strings.Count(text, "a loop does not answer"); n != 20 {
		t.Errorf("hung for 20 beats, logged %d times", n)
	}
}

// A loop that is busy each time it is asked, and answers before it is asked
// again, is no loop that hangs.
func TestWatchdogOfABusyLoop(t *testing.T) {
	path, told := notifySocket(t)
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "2000000")
	m := manager{slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		at := time.Now()
		m.watch(ctx, func(context.Context, int) loop.Snapshot {
			snap := loop.Snapshot{Loops: []loop.LoopSnapshot{{At: at}}}
			at = time.Now()
			return snap
		})
	}()
	for range 3 {
		if got := next(t, told); got != "WATCHDOG=1" {
			t.Errorf("told %q", got)
		}
	}
	cancel()
	<-ended
}
