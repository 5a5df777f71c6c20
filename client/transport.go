package client

import (
	"net"
	"sync/atomic"
)

// countedConn counts the bytes that the transport has taken. Under TLS it
// stands below the encryption: what the TLS connection reports as unwritten
// may have left all the same, what this one has not counted has not.
type countedConn struct {
	net.Conn
	written atomic.Int64
	calls   atomic.Int64
}

// Write passes p on. A transport that reports a nonsensical count is taken to
// have written everything: that never makes a sent byte an unsent one.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n < 0 || n > len(p) {
		n = len(p)
	}
	c.written.Add(int64(n))
	c.calls.Add(1)
	return n, err
}
