package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"ticketing/client"
)

type acquireCmd struct {
	Key string `arg:"" help:"What to acquire: 1 to 128 bytes without a space."`
	connectFlags
	attemptFlags
}

// Run makes one attempt and prints the token of its grant.
func (c *acquireCmd) Run(ctx context.Context, p *process) error {
	signal.Ignore(syscall.SIGPIPE) // a broken pipe is the error of a write: the key must not be left behind
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
	if _, err := fmt.Fprintln(p.stdout, t.Token()); err != nil {
		if released := t.Release(ctx); released != nil {
			p.complain(callText(released))
		}
		return environmentFailed(fmt.Errorf("the token cannot be printed, so the key is given back: %w", err))
	}
	return nil
}

// attempt waits for the key. A signal ends the waiting; a grant that comes
// together with it is given back.
func (f *attemptFlags) attempt(ctx context.Context, cl *client.Client, key string, signals <-chan os.Signal) (*client.Ticket, error) {
	waiting, stop := untilSignal(ctx, signals)
	t, err := cl.Acquire(waiting, key, time.Duration(f.MinWorkBudget), f.options()...)
	stop()
	if ended := interrupted(waiting, "waiting for "+strconv.Quote(key)); ended != nil {
		if t != nil {
			t.Release(waiting) // sent; Close waits for its answer
		}
		return nil, ended
	}
	if err != nil {
		return nil, callFailed(cl, err)
	}
	return t, nil
}
