package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startTimeout bounds how long a server may take until it accepts.
const startTimeout = 20 * time.Second

// process is a server that runs.
type process struct {
	name  string
	addr  string // of clients
	admin string // HTTP; Ticketing only
	both  bool   // it announces both
	cmd   *exec.Cmd
	dir   string // removed at the end
	said  output
	ended chan struct{}
	err   error // of Wait, once ended
}

// output keeps the beginning of what a process prints, for error messages.
type output struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept.Len() < 16<<10 {
		o.kept.Write(p)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.String()
}

// launch starts a server and returns when it accepts connections. With announces
// the server prints its addresses; otherwise p.addr says where it will be.
func launch(p *process, announces bool) (*process, error) {
	p.ended = make(chan struct{})
	p.cmd.Stderr = &p.said
	// The kernel kills it with the thread that starts it: main holds that one.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	told := make(chan struct{})
	if announces {
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := p.cmd.Start(); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		go p.readAddresses(out, told)
	} else {
		p.cmd.Stdout = &p.said
		close(told)
		if err := p.cmd.Start(); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	go func() { p.err = p.cmd.Wait(); close(p.ended) }()
	deadline := time.After(startTimeout)
	for {
		select {
		case <-told:
			if conn, err := net.Dial("tcp", p.addr); err == nil {
				conn.Close()
				return p, nil
			}
		default:
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended at its start: %v\n%s", p.name, p.err, &p.said)
		case <-deadline:
			p.stop()
			return nil, fmt.Errorf("%s does not accept within %v\n%s", p.name, startTimeout, &p.said)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// readAddresses takes the lines "client HOST:PORT" and "admin HOST:PORT".
func (p *process) readAddresses(out io.Reader, told chan struct{}) {
	lines, missing := bufio.NewScanner(out), 1
	if p.both {
		missing = 2
	}
	for missing > 0 && lines.Scan() {
		switch what, addr, _ := strings.Cut(lines.Text(), " "); what {
		case "client":
			p.addr, missing = addr, missing-1
		case "admin":
			p.admin, missing = addr, missing-1
		}
	}
	if missing == 0 {
		close(told)
	}
}

// stop ends the server; a server that had ended by itself is an error.
func (p *process) stop() error {
	if p.dir != "" {
		defer os.RemoveAll(p.dir)
	}
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended by itself: %v\n%s", p.name, p.err, &p.said)
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return nil
}

// cpu reads the CPU clock of the process: all threads, in nanoseconds, those that
// have ended included.
func (p *process) cpu() time.Duration {
	return readClock(int32(^p.cmd.Process.Pid<<3 | 2)) // what clock_getcpuclockid makes of a pid
}

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration { return readClock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// resident is the memory of the process in bytes.
func (p *process) resident() int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// settled returns the memory once it has stayed within 0.3 % for so long, or what
// it is after eight seconds.
func (p *process) settled(still time.Duration) int64 {
	const step = 100 * time.Millisecond
	last, since := p.resident(), time.Duration(0)
	for range 80 {
		time.Sleep(step)
		now := p.resident()
		if d := max(now-last, last-now); d*333 <= now {
			if since += step; since >= still {
				return now
			}
		} else {
			since = 0
		}
		last = now
	}
	return last
}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}
