package chaos

import (
	"context"
	"fmt"
)

// changeMembers lets the spare node join, or, when it is a member, lets a
// member leave that is then wiped and becomes the spare.
func (c *cluster) changeMembers(ctx context.Context, n *nemesis) (what string, heal func() error, err error) {
	via := n.leader()
	if via == nil {
		via = n.any()
	}
	if spare := c.absent(); spare != nil {
		what = spare.name + " joins"
		if err := c.control(ctx, via, "add", spare.name, "--peer", spare.peerAddr(), "--client", spare.clientAddr()); err != nil {
			return what + ", refused: " + err.Error(), nil, nil // others are at work too
		}
		c.members[spare.name] = true
		return what, nil, nil // it is started as every member is
	}
	gone := n.any()
	what = gone.name + " leaves"
	if err := c.control(ctx, via, "remove", gone.name); err != nil {
		return what + ", refused: " + err.Error(), nil, nil
	}
	delete(c.members, gone.name)
	if err := gone.stop(stopping); err != nil {
		what += fmt.Sprintf(" (%v)", err)
	}
	return what, nil, gone.wipe()
}

// absent is the node that is no member, or nil.
func (c *cluster) absent() *node {
	for _, n := range c.nodes {
		if !c.members[n.name] {
			return n
		}
	}
	return nil
}
