package loop

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// withoutFiles lets the process have no descriptor beyond those it has, but for
// what is opened before the returned func is called.
func withoutFiles(t *testing.T) (begin, end func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	lowest, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(lowest)
	set := func(limit uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}); err != nil {
			t.Error(err)
		}
	}
	end = func() { set(old.Cur) }
	t.Cleanup(end)
	return func() { set(uint64(lowest)) }, end
}

// What is due to half-closed clients reaches them while there are no
// descriptors: as many at once as the reserve has, and again afterwards. The next
// one's connection ends.
func TestTailsWithoutDescriptors(t *testing.T) {
	var log bytes.Buffer
	srv := startServer(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	here, there := srv.loops[0], srv.loops[1]
	key := keysOf(there, 1)[0]
	begin, end := withoutFiles(t)
	for _, more := range []int{0, 1, 0} {
		var all []*peer
		for range reserved + more {
			all = append(all, dialTo(t, srv, here))
		}
		goOn := stall(t, there)
		begin()
		for i, p := range all {
			p.release(uint64(1+i), key)
			p.halfClose()
		}
		eventually(t, "the FINs have been seen", func() bool {
			return ask(here, func() bool {
				tails := 0
				for _, sl := range here.slots {
					if sl.session != nil && sl.session.tail != nil {
						tails++
					}
				}
				return tails == reserved && here.sessions == reserved && len(here.reserve.free) == 0
			})
		})
		end()
		goOn()
		answered := 0
		for _, p := range all {
			if r, err := p.read(); err == nil && r.Op == codec.OpNotHeld {
				answered++
				p.wantEnd()
			}
			p.Close()
		}
		if answered != reserved {
			t.Errorf("%d of %d are answered, want %d", answered, len(all), reserved)
		}
		eventually(t, "the reserve is whole", func() bool {
			return ask(here, func() bool { return here.sessions == 0 && len(here.reserve.free) == reserved })
		})
	}
	if said := log.String(); strings.Count(said, "answers to a half-closed client are lost") != 1 {
		t.Errorf("logged %q", said)
	}
}
