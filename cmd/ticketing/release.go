package main

import (
	"context"
	"math"
	"strconv"
)

type releaseCmd struct {
	Key   string `arg:"" help:"What to release."`
	Token string `arg:"" help:"The token that its acquire printed."`
	connectFlags
}

// Run releases a key.
func (c *releaseCmd) Run(ctx context.Context, p *process) error {
	token, err := strconv.ParseUint(c.Token, 10, 64)
	if err != nil {
		return settingFailed(&settingError{"TOKEN", strconv.Quote(c.Token), "allowed is 0.." + strconv.FormatUint(math.MaxUint64, 10)})
	}
	cl, err := c.connect(p)
	if err != nil {
		return err
	}
	defer cl.Close()
	signals, stop := catch(ending)
	defer stop()
	releasing, done := untilSignal(ctx, signals)
	err = cl.Release(releasing, c.Key, token)
	done()
	switch {
	case err == nil:
		return nil
	default:
		if ended := interrupted(releasing, "waiting for the answer to the release of "+strconv.Quote(c.Key)); ended != nil {
			return ended
		}
		return callFailed(cl, err)
	}
}
