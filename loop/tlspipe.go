package loop

import (
	"net"
	"time"
)

// The rest of net.Conn: crypto/tls asks for none of it while a handshake or a
// record is under way, and the socket's end is the session's, not the pipe's.

// Close implements net.Conn.
func (*pipe) Close() error { return nil }

// LocalAddr implements net.Conn.
func (*pipe) LocalAddr() net.Addr { return nil }

// RemoteAddr implements net.Conn.
func (*pipe) RemoteAddr() net.Addr { return nil }

// SetDeadline implements net.Conn.
func (*pipe) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (*pipe) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn. close_notify sets one; writing to memory
// does not wait.
func (*pipe) SetWriteDeadline(time.Time) error { return nil }
