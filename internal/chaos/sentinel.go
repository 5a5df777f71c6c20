package chaos

import (
	"context"
	"fmt"
	"net"
	"time"

	"ticketing/codec"
)

// A sentinel is a connection to one node on which somebody waits for a key. It
// does not look for another node, as the official client does, so that it sees
// what a waiter is told when the node is not the leader any more.
type sentinel struct {
	conn net.Conn
	buf  []byte
}

// sentinelIP is its address; no fault touches it.
const sentinelIP = "127.0.3.3"

// notLater is how long a waiter may wait to be told that the lead has moved.
const notLater = 2 * time.Second

// post holds a key at a node and waits for it.
func post(ctx context.Context, n *node, key string) (*sentinel, error) {
	conn, err := dialFrom(sentinelIP)(ctx, "tcp", n.clientAddr())
	if err != nil {
		return nil, err
	}
	s := &sentinel{conn: conn}
	conn.SetDeadline(time.Now().Add(notLater))
	conn.Write(codec.AppendAcquire(nil, 1, 0, 3, []byte(key)))
	if r, err := s.read(); err != nil || r.Op != 'A' {
		conn.Close()
		return nil, fmt.Errorf("a sentinel was not granted its key: %q %w", string(rune(r.Op))+string(r.Text), err)
	}
	if _, err := conn.Write(codec.AppendAcquire(nil, 2, 255, 3, []byte(key))); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// told returns what the waiter is told, from now on, and after how long.
func (s *sentinel) told() (what string, took time.Duration, err error) {
	defer s.conn.Close()
	from := time.Now()
	s.conn.SetDeadline(from.Add(notLater))
	r, err := s.read()
	return string(rune(r.Op)) + string(r.Text), time.Since(from), err
}

// read returns the next reply.
func (s *sentinel) read() (r codec.Reply, err error) {
	part := make([]byte, 256)
	for {
		n, err := codec.ParseReply(s.buf, &r)
		if n > 0 || err != nil {
			r.Text = append([]byte(nil), r.Text...)
			s.buf = s.buf[n:]
			return r, err
		}
		if n, err = s.conn.Read(part); err != nil {
			return r, err
		}
		s.buf = append(s.buf, part[:n]...)
	}
}
