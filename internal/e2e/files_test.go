package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// setFiles sets the soft limit of open files of a running server.
func (s *server) setFiles(t *testing.T, soft uint64) (before uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: old.Max}, nil); err != nil {
		t.Skip("prlimit: ", err)
	}
	return old.Cur
}

// lowestFree is the lowest number that no file descriptor of the server has:
// the next one would get it, and the limit is one of numbers.
func (s *server) lowestFree(t *testing.T) (n uint64) {
	t.Helper()
	for {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", s.pid(), n)); err != nil {
			return n
		}
		n++
	}
}

// TestOutOfFiles takes the file descriptors from the running server while
// hundreds dial. It lives, serves whom it has without spinning, and accepts
// again within a second of the shortage's end.
func TestOutOfFiles(t *testing.T) {
	const dials = 400
	onLoops(t, func(t *testing.T, s *server) {
		before := s.footprint(t)
		held := s.dial(t)
		token := held.lock("held", 250)
		stop := s.keepServing(t, 4)
		for _, spare := range []int{0, 1, 2} { // for accept alone, and for what comes behind it
			old := s.setFiles(t, s.lowestFree(t)+uint64(spare))
			var pending []*peer
			for range dials {
				p, err := s.tryDial(t, 0)
				if err != nil {
					t.Fatal(err)
				}
				p.write(release(0, "pending"))
				pending = append(pending, p)
			}
			ticks, lasts := cpuTicks(t, s.pid()), time.Second
			if spare == 0 {
				lasts = 3 * time.Second // long enough for a server to lose its patience
			}
			time.Sleep(lasts)
			if used := cpuTicks(t, s.pid()) - ticks; used > int(60*lasts/time.Second) {
				t.Errorf("the server used %d ms of CPU in %v of shortage", 10*used, lasts)
			}
			held.refused('T', 0, "held")
			if !s.alive() {
				t.Fatal("the server has ended")
			}
			s.setFiles(t, old)
			begin := time.Now()
			p := s.dial(t)
			p.quiet()
			if d := time.Since(begin); d > time.Second+slack(begin) {
				t.Errorf("a new client was served only %v after the shortage", d)
			} else {
				t.Logf("a new client was served %v after the shortage", d)
			}
			served := 0
			for _, p := range pending { // each is served or closed; none hangs
				r, err := p.next()
				switch {
				case err == nil && r.is('N', 0, "pending"):
					served++
				case err == io.EOF || errors.Is(err, syscall.ECONNRESET):
				default:
					t.Fatalf("got %v, %v", r, err)
				}
				p.close()
			}
			t.Logf("%d of %d that dialled in the shortage were served", served, dials)
			p.close()
		}
		if n := strings.Count(s.stderr.String(), "\n"); n > 60 {
			t.Errorf("the server wrote %d lines about it", n)
		}
		held.unlock(token, "held")
		held.close()
		stop()
		s.backTo(t, before)
	})
}
