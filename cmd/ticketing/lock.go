package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ticketing/client"
)

// What the command under a lock is told.
const (
	keyVariable   = "TICKETING_KEY"
	tokenVariable = "TICKETING_TOKEN"
)

type lockCmd struct {
	Key     string   `arg:"" help:"What to acquire: 1 to 128 bytes without a space."`
	Command []string `arg:"" passthrough:"partial" help:"Two dashes, the command to run, its arguments: -- CMD ARG..."`
	connectFlags
	attemptFlags
	Grace span `env:"TICKETING_GRACE" default:"5s" range:"0s..5m" placeholder:"DURATION" help:"What CMD has between SIGTERM and SIGKILL when the lease ends before it does."`
}

// Help is shown by --help.
func (*lockCmd) Help() string {
	return "ticketing lock KEY [flags] -- CMD ARG...\n\n" +
		"CMD is run without a shell, in a process group that gets the signals, with " + keyVariable + " and " + tokenVariable +
		" in its environment. The exit code is that of CMD, 128+N when signal N ended it, or 15 when the lease ended first."
}

// Run acquires the key, runs the command, and releases the key.
func (c *lockCmd) Run(ctx context.Context, p *process) error {
	path, argv, err := c.program()
	if err != nil {
		return settingFailed(err)
	}
	// With SIGPIPE caught, a message that nobody reads is the error of a write
	// and does not end the one who watches over the command. Ignored it would be
	// for the command, too.
	_, stopPipe := catch([]syscall.Signal{syscall.SIGPIPE})
	defer stopPipe()
	cl, err := c.connect(p)
	if err != nil {
		return err
	}
	defer cl.Close()
	signals, stop := catch(ending)
	defer stop()
	t, err := c.attempt(ctx, cl, c.Key, signals)
	if err != nil {
		return err
	}
	select {
	case s := <-signals: // just before there was somebody to pass it on to
		giveBack(ctx, p, t)
		return endedBy(s.(syscall.Signal), "starting "+strconv.Quote(argv[0]))
	default:
	}
	// The kernel kills the command when the thread that started it ends: this
	// goroutine keeps its thread until the process ends.
	runtime.LockOSThread()
	tty := openTerminal()
	running, err := startChild(path, argv, commandEnviron(p.environ, t), tty)
	if err != nil {
		giveBack(ctx, p, t)
		return startFailure(argv[0], err)
	}
	catchInto(signals, besides)
	w := &watch{
		process: p, child: running, tty: tty, signals: signals,
		key: c.Key, deadline: t.Deadline(), grace: time.Duration(c.Grace),
	}
	status, leaseEnded := w.run()
	if leaseEnded {
		return statusError(exitLeaseEnded) // nothing is left to release
	}
	releasing, done := untilSignal(ctx, signals)
	defer done()
	giveBack(releasing, p, t)
	return commandStatus(status)
}

// program returns the file to run and the arguments it gets. It is looked up
// before the key is asked for.
func (c *lockCmd) program() (path string, argv []string, err error) {
	if c.Command[0] != "--" || len(c.Command) == 1 {
		return "", nil, errors.New("want lock KEY [flags] -- CMD ARG...: the two dashes or CMD are missing")
	}
	argv = c.Command[1:]
	path, err = exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // the PATH may well name the working directory
		return "", nil, commandError(argv[0], err)
	}
	return path, argv, nil
}

// commandError names the command once, whatever the error wraps.
func commandError(name string, err error) error {
	var search *exec.Error
	if errors.As(err, &search) {
		err = search.Err
	}
	var file *os.PathError
	if errors.As(err, &file) {
		err = file.Err
	}
	return fmt.Errorf("CMD %q cannot be run: %w", name, err)
}

// startFailure tells a command that cannot be run from a machine that cannot
// run one more.
func startFailure(name string, err error) error {
	for _, scarce := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, scarce) {
			return environmentFailed(commandError(name, err))
		}
	}
	return settingFailed(commandError(name, err))
}

// commandEnviron is the environment as it is, and the key and token in place of
// those of a lock around this one.
func commandEnviron(environ []string, t *client.Ticket) []string {
	var all []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); name != keyVariable && name != tokenVariable {
			all = append(all, entry)
		}
	}
	return append(all, keyVariable+"="+t.Key(), tokenVariable+"="+strconv.FormatUint(t.Token(), 10))
}

// giveBack releases the key. Its failure is told and changes nothing: the
// command has run, and what it exits with is its own.
func giveBack(ctx context.Context, p *process, t *client.Ticket) {
	if err := t.Release(ctx); err != nil {
		p.complain(callText(err))
	}
}

// commandStatus is the command's exit as this process's own, as shells do it.
func commandStatus(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return statusError(exitSignal + int(status.Signal()))
	case status.ExitStatus() != 0:
		return statusError(status.ExitStatus())
	}
	return nil
}
