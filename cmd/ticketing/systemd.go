package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"ticketing/loop"
)

// manager tells systemd how the node is, when NOTIFY_SOCKET names a socket;
// otherwise nothing happens.
type manager struct{ log *slog.Logger }

func (m manager) ready()    { m.send(daemon.SdNotifyReady) }
func (m manager) stopping() { m.send(daemon.SdNotifyStopping) }

// reloading begins a reload, which ready ends. Type=notify-reload wants to know
// when it began.
func (m manager) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		m.log.Warn("systemd: reading the monotonic clock", "error", err)
	}
	m.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
}

func (m manager) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// watch sends the signs of life that WatchdogSec asks for, four in each
// interval, until ctx is done. It sends none while a loop has not answered for
// half of it: then systemd is to end this process and start another. A loop that
// is busy just when it is asked has answered a quarter ago.
func (m manager) watch(ctx context.Context, server snapshooter) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Warn("systemd: no watchdog", "error", err)
		return
	}
	if interval == 0 {
		return
	}
	beat := time.NewTicker(max(1, interval/4))
	defer beat.Stop()
	for {
		if server.alive(ctx, interval/2) {
			m.send(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			m.log.Error("a loop does not answer: no sign of life for systemd")
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// snapshooter gives snapshots of the server.
type snapshooter func(ctx context.Context, queues int) loop.Snapshot

// alive reports whether every loop has published since patience ago, with the
// chance to do so now.
func (s snapshooter) alive(ctx context.Context, patience time.Duration) bool {
	since := time.Now().Add(-patience)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap := s(ctx, 0)
	for i := range snap.Loops {
		if snap.Loops[i].At.Before(since) {
			return false
		}
	}
	return len(snap.Loops) > 0
}
