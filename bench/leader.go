package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"ticketing/codec"
)

// movedError is the answer of a node that knows who leads (§9).
type movedError struct{ addr string }

func (m *movedError) Error() string { return "it does not lead, " + m.addr + " does" }

// dialFirst finds the address that is used: of several the first whose node
// executes requests, also where a node points to.
func (r *run) dialFirst(ctx context.Context) (link, error) {
	several := len(r.cfg.Addrs) > 1
	var failed []error
	for left := slices.Clone(r.cfg.Addrs); len(left) > 0; {
		addr := left[0]
		left = left[1:]
		l, err := r.dial(ctx, addr, several)
		if err == nil {
			r.addr = addr
			return l, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", addr, err))
		var moved *movedError
		if errors.As(err, &moved) && len(failed) <= 2*len(r.cfg.Addrs) {
			left = slices.DeleteFunc(left, func(other string) bool { return other == moved.addr })
			left = slices.Insert(left, 0, moved.addr)
		}
	}
	return none, fmt.Errorf("%w: %w", ErrNoSession, errors.Join(failed...))
}

// probe asks for what changes nothing and only a node that executes requests
// answers: the release of token 0, which holds no key (§5).
func probe(conn net.Conn) error {
	const key = "ticketing/bench"
	if _, err := conn.Write(codec.AppendRelease(nil, 0, key)); err != nil {
		return err
	}
	var buf [codec.MaxFrame + 1]byte
	var reply codec.Reply
	for have := 0; ; {
		n, err := conn.Read(buf[have:])
		have += n
		parsed, malformed := codec.ParseReply(buf[:have], &reply)
		switch {
		case malformed != nil:
			return malformed
		case parsed == 0 && err != nil:
			return err
		case parsed == 0:
			continue
		}
		switch reply.Op {
		case codec.OpNotHeld:
			return nil
		case codec.OpMoved:
			return &movedError{string(reply.Text)}
		case codec.OpError:
			return fmt.Errorf("the server ended it: E %s", oneLine(reply.Text))
		}
		return fmt.Errorf("the release of token 0 is answered with %c", reply.Op)
	}
}
