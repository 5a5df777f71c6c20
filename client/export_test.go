package client

import (
	"context"
	"time"
)

var contextBackground = context.Background()

// SetLastOwner makes last the last owner given out.
func (c *Client) SetLastOwner(last uint64) { c.owner.Store(last) }

// Gate puts a call with a matched grant before the gate that hands out
// tickets: read off the socket `age` ago, with `left` until its deadline.
func (c *Client) Gate(key string, token uint64, age, left, lease, budget time.Duration) (*Ticket, error) {
	k := c.newCall(kindAcquire, 1, key, c.now().add(left))
	k.settle(verdictGranted, nil)
	k.token, k.at = token, c.now().add(-age)
	return c.gate(contextBackground, k, lease, budget)
}

const (
	MaxCompensations = maxCompensations
	BackoffMax       = backoffMax
)
