package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ending are the signals that are meant to end a process, in its own time.
var ending = []syscall.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// besides are signals that tell a process something else. They mean nothing to
// a client command, but may to the one that it runs.
var besides = []syscall.Signal{syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH}

// catch has signals sent to a channel until stop. One that is ignored already,
// as nohup does it, stays so, for this process and for those it starts.
func catch(all []syscall.Signal) (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 64)
	catchInto(signals, all)
	return signals, func() { signal.Stop(signals) }
}

func catchInto(signals chan<- os.Signal, all []syscall.Signal) {
	for _, s := range all {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal syscall.Signal }

func (i *interruption) Error() string { return unix.SignalName(i.signal) }

// untilSignal returns a context that the first of signals ends. With stop the
// others are left in the channel.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			cancel(&interruption{s.(syscall.Signal)})
		case <-quit:
		}
	}()
	return ctx, func() { close(quit); <-done; cancel(nil) }
}

// interrupted returns the error of a command that a signal ended while it did
// what is named, or nil when none did.
func interrupted(ctx context.Context, doing string) error {
	var i *interruption
	if !errors.As(context.Cause(ctx), &i) {
		return nil
	}
	return endedBy(i.signal, doing)
}

func endedBy(s syscall.Signal, doing string) error {
	return &exitError{exitSignal + int(s), errors.New(unix.SignalName(s) + " while " + doing)}
}
