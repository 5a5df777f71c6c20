package chaos

import (
	"context"
	"fmt"
	"time"

	"ticketing/codec"
	"ticketing/internal/chaos/history"
)

// twoLeaders parts the leader from the others, and when they have another, lets
// the new one grant a key and asks the old one to release it, which may still
// believe in itself. It must not say that the key is not held. Without other
// load nothing but a proof of the lead keeps it from that.
func twoLeaders(ctx context.Context, n *nemesis) (string, func() error, error) {
	old := n.leader()
	if old == nil {
		return "no leader is known", nil, nil
	}
	key := fmt.Sprint("twice", n.drawn)
	conn, err := dialFrom(sentinelIP)(ctx, "tcp", old.clientAddr())
	if err != nil {
		return err.Error(), nil, nil // it does not run
	}
	defer conn.Close()
	var rules []rule
	for _, m := range n.others(old) {
		rules = append(rules, both(old.ip, m.ip, dropAll)...)
	}
	heal, err := n.cluster.net.add(rules...)
	if err != nil {
		return "", nil, err
	}
	next := n.successor(ctx, old)
	if next == nil {
		return old.name + " is alone, and nobody follows it", heal, nil
	}
	token, err := grantedAt(ctx, next, key)
	if err != nil {
		return fmt.Sprintf("%s after %s: %v", next.name, old.name, err), heal, nil
	}
	conn.SetDeadline(time.Now().Add(notLater))
	asked := time.Now()
	conn.Write(codec.AppendRelease(nil, token, []byte(key)))
	reply, err := (&sentinel{conn: conn}).read()
	said := "nothing"
	if err == nil {
		said = string(rune(reply.Op)) + string(reply.Text)
	}
	if reply.Op == 'N' {
		n.found = append(n.found, history.Violation{Check: "reads", What: fmt.Sprintf(
			"%s granted %q to token %d, and %s, which led before, said that this does not hold it", next.name, key, token, old.name)})
	}
	return fmt.Sprintf("%s after %s, which says %s after %v", next.name, old.name, said, time.Since(asked).Round(time.Millisecond)), heal, nil
}

// successor waits for another leader than the old one.
func (n *nemesis) successor(ctx context.Context, old *node) *node {
	for from := time.Now(); time.Since(from) < recovery && ctx.Err() == nil; {
		for _, m := range n.others(old) {
			if s, err := n.watch.get(ctx, m); err == nil && s.Serving {
				return m
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// grantedAt takes a key at a node and returns the token.
func grantedAt(ctx context.Context, at *node, key string) (uint64, error) {
	conn, err := dialFrom(sentinelIP)(ctx, "tcp", at.clientAddr())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(notLater))
	conn.Write(codec.AppendAcquire(nil, 1, 0, 3, []byte(key)))
	reply, err := (&sentinel{conn: conn}).read()
	if err == nil && reply.Op != 'A' {
		err = fmt.Errorf("it says %c%s", reply.Op, reply.Text)
	}
	return reply.Token, err
}
