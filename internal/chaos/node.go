package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The ports of a node, each at the node's own address.
const (
	clientPort = "7400"
	adminPort  = "7401"
	peerPort   = "7402"
)

// starting is how long a node may take until it says where it listens.
const starting = 20 * time.Second

// A node is one server process, over all its restarts.
type node struct {
	name   string // n1, n2, ...
	ip     string
	dir    string // its disk, and beside it its log
	binary string
	env    []string
	disk   diskKind

	mu      sync.Mutex
	process *process // nil when it does not run
	paused  bool
}

// A process is one run of a node.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it is gone
	err   error         // then: how it ended
}

func (n *node) clientAddr() string { return n.ip + ":" + clientPort }
func (n *node) adminAddr() string  { return n.ip + ":" + adminPort }
func (n *node) peerAddr() string   { return n.ip + ":" + peerPort }

func (n *node) logFile() string { return filepath.Join(n.dir, n.name+".log") }

// start runs the node and returns when it says that it listens for clients.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return nil
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.binary, "serve")
	cmd.Env = n.env
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	listening := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for said := false; lines.Scan(); {
			if !said && strings.HasPrefix(lines.Text(), "client ") {
				said = true
				close(listening)
			}
		}
		io.Copy(io.Discard, out)
		p.err = cmd.Wait()
		close(p.ended)
	}()
	select {
	case <-listening:
	case <-p.ended:
		return fmt.Errorf("%s ended when it was started: %v; its log: %s", n.name, p.err, n.logFile())
	case <-time.After(starting):
		cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not listen within %v; its log: %s", n.name, starting, n.logFile())
	case <-ctx.Done():
		cmd.Process.Kill()
		<-p.ended
		return ctx.Err()
	}
	n.process = p
	return nil
}

// signal sends a signal to the node when it runs.
func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return
	}
	n.process.cmd.Process.Signal(s)
	switch s {
	case syscall.SIGSTOP:
		n.paused = true
	case syscall.SIGCONT:
		n.paused = false
	}
}

// kill ends the node with SIGKILL and waits until it is gone.
func (n *node) kill() { n.end(syscall.SIGKILL, 0) }

// stop asks the node to end, and kills it when it takes longer than patience.
// It returns how the node ended.
func (n *node) stop(patience time.Duration) error { return n.end(syscall.SIGTERM, patience) }

var errHung = errors.New("it did not end when it was asked to")

func (n *node) end(s syscall.Signal, patience time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.process
	if p == nil {
		return nil
	}
	n.process, n.paused = nil, false
	p.cmd.Process.Signal(s)
	p.cmd.Process.Signal(syscall.SIGCONT)
	if s == syscall.SIGKILL {
		<-p.ended
		return nil
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(patience):
		p.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines to the log
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
			p.cmd.Process.Kill()
			<-p.ended
		}
		return errHung
	}
}

// running reports whether the process is there; a node that ended by itself is
// noticed here.
func (n *node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.ended:
		return false
	default:
		return true
	}
}

// awaitEnd waits until the process ends by itself, and then does what reap does.
func (n *node) awaitEnd(patience time.Duration) (error, bool) {
	n.mu.Lock()
	p := n.process
	n.mu.Unlock()
	if p != nil {
		select {
		case <-p.ended:
		case <-time.After(patience):
		}
	}
	return n.reap()
}

// reap forgets a process that ended by itself and returns how it ended; false
// when it runs.
func (n *node) reap() (error, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil, false
	}
	select {
	case <-n.process.ended:
		err := n.process.err
		n.process, n.paused = nil, false
		return err, true
	default:
		return nil, false
	}
}
