package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRestartAfterKill: a server that was killed is started again on the same
// port at once, whatever its connections were doing.
func TestRestartAfterKill(t *testing.T) {
	s := start(t)
	for range 3 {
		var left []*peer
		for i := range 40 {
			p := s.dial(t)
			switch i % 4 {
			case 0: // closed by the server: its port is in TIME_WAIT
				p.send([]byte("?"))
				p.ends("Ebad_op\n")
			case 1:
				p.lock(fmt.Sprint("held", i), 250)
				p.queue(250, 250, fmt.Sprint("held", i))
			case 2:
				p.send([]byte("A"))
			case 3:
				p.close()
			}
			left = append(left, p)
		}
		s.kill()
		again := start(t, "LISTEN_ADDR="+s.addr, "ADMIN_ADDR="+s.admin)
		if again.addr != s.addr || again.admin != s.admin {
			t.Fatalf("started on %s and %s", again.addr, again.admin)
		}
		again.dial(t).quiet()
		for _, q := range left {
			q.close()
		}
		s = again
	}
}

// cpuTicks is the processor time a process has used, in ticks of 10 ms.
func cpuTicks(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var user, system int
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return user + system
}

// TestIdleUsesNoCPU: with 2000 idle connections, held keys and attempts that
// wait, a server does nothing.
func TestIdleUsesNoCPU(t *testing.T) {
	const conns, most = 2000, 20 // ticks in 2 s: a tenth of a processor
	onLoops(t, func(t *testing.T, s *server) {
		peers := s.dials(t, conns)
		for i, p := range peers {
			if i%20 == 0 {
				p.lock(fmt.Sprint("k", i), 250)
				p.queue(250, 250, fmt.Sprint("k", i))
			}
		}
		peers[conns-1].quiet()
		before := cpuTicks(t, s.pid())
		time.Sleep(2 * time.Second)
		if used := cpuTicks(t, s.pid()) - before; used > most {
			t.Errorf("idle, the server used %d ms of CPU in 2 s", 10*used)
		} else {
			t.Logf("%d ms of CPU in 2 s", 10*used)
		}
		for _, p := range peers {
			p.quiet()
			p.close()
		}
	}, "MAX_CONNECTIONS=2100")
}

// TestNotify: systemd is told when the server is ready, alive and stopping.
func TestNotify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 1000)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := l.Read(b)
			if err != nil {
				close(said)
				return
			}
			for line := range strings.Lines(string(b[:n])) {
				select {
				case said <- strings.TrimSuffix(line, "\n"):
				default:
				}
			}
		}
	}()
	hear := func(want string) {
		t.Helper()
		timeout := time.After(patience)
		for {
			select {
			case line := <-said:
				if line == want {
					return
				}
			case <-timeout:
				t.Fatalf("%s was not said", want)
			}
		}
	}
	s := start(t, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=400000")
	hear("READY=1")
	for range 3 {
		hear("WATCHDOG=1")
	}
	s.signal(t, syscall.SIGTERM)
	hear("STOPPING=1")
	s.exitsCleanly(t, 5*time.Second)
}
