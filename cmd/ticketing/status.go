package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"ticketing/internal/admin"
)

// statusPatience bounds the whole exchange with the admin endpoint, and
// maxStatus what is read of its answer: some hundred loops with the longest
// queues of the longest keys are far below it.
const (
	statusPatience = 10 * time.Second
	maxStatus      = 16 << 20
)

type statusCmd struct {
	AdminAddr hostPort `env:"ADMIN_ADDR" default:"127.0.0.1:7401" range:"host:port" placeholder:"HOST:PORT" help:"The admin endpoint of the node."`
	JSON      bool     `name:"json" help:"Print what the node says, as JSON."`
}

// Run prints what the node says of itself.
func (c *statusCmd) Run(ctx context.Context, p *process) error {
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	body, err := fetchStatus(ctx, string(c.AdminAddr))
	if err != nil {
		return &exitError{exitNoSession, fmt.Errorf("status of %s: %w", c.AdminAddr, err)}
	}
	var status admin.Status
	if err := json.Unmarshal(body, &status); err != nil || status.GoVersion == "" {
		return &exitError{exitNoSession, fmt.Errorf("status of %s: the answer is not that of a ticketing node", c.AdminAddr)}
	}
	if c.JSON {
		_, err = p.stdout.Write(body)
		return err
	}
	return writeStatus(p.stdout, &status)
}

// fetchStatus asks the admin endpoint at addr, and nobody else: no proxy, no
// redirection.
func fetchStatus(ctx context.Context, addr string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusPatience, errors.New("no answer within "+statusPatience.String()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxStatus))
}
