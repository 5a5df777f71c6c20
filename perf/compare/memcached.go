package main

import (
	"encoding/binary"
	"strconv"
)

// memcachedProtocol takes a lock by add, which fails where something is, and
// gives it back by delete, which does not ask whose it is.
type memcachedProtocol struct{}

func newMemcached() protocol { return memcachedProtocol{} }

func (memcachedProtocol) appendAcquire(dst []byte, c *conn, s *slot) []byte {
	c.expect(s)
	dst = append(dst, "add "...)
	dst = append(dst, s.key[:]...)
	dst = append(dst, " 0 "...)
	dst = strconv.AppendInt(dst, int64(max(c.g.lease, 100)), 10)
	dst = append(dst, " 8\r\n"...)
	dst = binary.BigEndian.AppendUint64(dst, s.owner)
	return append(dst, "\r\n"...)
}

func (memcachedProtocol) appendRelease(dst []byte, c *conn, s *slot) []byte {
	c.expect(s)
	dst = append(dst, "delete "...)
	dst = append(dst, s.key[:]...)
	return append(dst, "\r\n"...)
}

func (memcachedProtocol) parse(c *conn, b []byte) (int, error) {
	return parseInOrder(c, b, "STORED\r\n", "DELETED\r\n")
}
