package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// setDelProtocol is the usual lock in Redis: SET with NX and PX takes it. Given
// back it is by DEL, which is cheapest and deletes whatever is there, or by a
// script that deletes only its owner's value.
type setDelProtocol struct{ script string } // SHA-1 of the script; empty: DEL

// compareAndDelete is the release that Redis' documentation recommends.
const compareAndDelete = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

func newSetDel() protocol { return &setDelProtocol{} }
func newLua() protocol    { return &setDelProtocol{script: "load"} }

// prepare loads the script.
func (p *setDelProtocol) prepare(conn net.Conn, _ *generator) error {
	if p.script == "" {
		return nil
	}
	fmt.Fprintf(conn, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(compareAndDelete), compareAndDelete)
	reader := bufio.NewReader(conn)
	if _, err := reader.ReadString('\n'); err != nil {
		return err
	}
	sha, err := reader.ReadString('\n')
	if p.script = strings.TrimSpace(sha); err == nil && len(p.script) != 40 {
		err = fmt.Errorf("SCRIPT LOAD: %q", sha)
	}
	return err
}

func (p *setDelProtocol) appendAcquire(dst []byte, c *conn, s *slot) []byte {
	c.expect(s)
	dst = append(dst, "*6\r\n$3\r\nSET\r\n$24\r\n"...)
	dst = append(dst, s.key[:]...)
	dst = append(dst, "\r\n$8\r\n"...)
	dst = binary.BigEndian.AppendUint64(dst, s.owner)
	dst = append(dst, "\r\n$2\r\nNX\r\n$2\r\nPX\r\n$6\r\n"...)
	dst = strconv.AppendInt(dst, 1000*int64(max(c.g.lease, 100)), 10) // six digits: see the length before
	return append(dst, "\r\n"...)
}

func (p *setDelProtocol) appendRelease(dst []byte, c *conn, s *slot) []byte {
	c.expect(s)
	if p.script == "" {
		dst = append(dst, "*2\r\n$3\r\nDEL\r\n$24\r\n"...)
		dst = append(dst, s.key[:]...)
		return append(dst, "\r\n"...)
	}
	dst = append(dst, "*5\r\n$7\r\nEVALSHA\r\n$40\r\n"...)
	dst = append(dst, p.script...)
	dst = append(dst, "\r\n$1\r\n1\r\n$24\r\n"...)
	dst = append(dst, s.key[:]...)
	dst = append(dst, "\r\n$8\r\n"...)
	dst = binary.BigEndian.AppendUint64(dst, s.owner)
	return append(dst, "\r\n"...)
}

func (p *setDelProtocol) parse(c *conn, b []byte) (int, error) {
	return parseInOrder(c, b, "+OK\r\n", ":1\r\n")
}

// parseInOrder is for protocols that answer in the order of the requests, with
// one text for each kind.
func parseInOrder(c *conn, b []byte, granted, released string) (used int, err error) {
	for used < len(b) {
		s := c.first()
		if s == nil {
			return used, unexpected(b[used:], nil)
		}
		want := released
		if s.state == grant {
			want = granted
		}
		if n := min(len(b)-used, len(want)); string(b[used:used+n]) != want[:n] {
			return used, unexpected(b[used:], s)
		} else if n < len(want) {
			return used, nil
		}
		c.head++
		used += len(want)
		if s.state == grant {
			if err := c.granted(s); err != nil {
				return used, err
			}
		} else {
			c.released(s)
		}
	}
	return used, nil
}

// blpopProtocol makes a lock with a queue out of a list that holds one element:
// who pops it holds the lock, who pushes it back hands it over. A connection that
// waits can do nothing else, so a slot needs a connection of its own.
type blpopProtocol struct{}

func newBlpop() protocol { return blpopProtocol{} }

// prepare puts the one element into each list.
func (blpopProtocol) prepare(conn net.Conn, g *generator) error {
	reader := bufio.NewReader(conn)
	for i := range g.contended {
		k := g.contendedKey(i)
		fmt.Fprintf(conn, "*3\r\n$5\r\nRPUSH\r\n$24\r\n%s\r\n$1\r\n1\r\n", k[:])
		if line, err := reader.ReadString('\n'); err != nil || line != ":1\r\n" {
			return fmt.Errorf("RPUSH: %q %v", line, err)
		}
	}
	return nil
}

func (blpopProtocol) appendAcquire(dst []byte, c *conn, s *slot) []byte {
	dst = append(dst, "*3\r\n$5\r\nBLPOP\r\n$24\r\n"...)
	dst = append(dst, s.key[:]...)
	return append(dst, "\r\n$1\r\n0\r\n"...)
}

func (blpopProtocol) appendRelease(dst []byte, c *conn, s *slot) []byte {
	dst = append(dst, "*3\r\n$5\r\nRPUSH\r\n$24\r\n"...)
	dst = append(dst, s.key[:]...)
	return append(dst, "\r\n$1\r\n1\r\n"...)
}

func (blpopProtocol) parse(c *conn, b []byte) (used int, err error) {
	const popped = len("*2\r\n$24\r\n") + keySize + len("\r\n$1\r\n1\r\n")
	s := &c.slots[0]
	switch {
	case s.state == release && len(b) >= 4:
		if string(b) != ":1\r\n" {
			return 0, unexpected(b, s)
		}
		c.released(s)
		return 4, nil
	case s.state == grant && len(b) >= popped:
		if len(b) != popped || key(b[9:9+keySize]) != s.key {
			return 0, unexpected(b, s)
		}
		return popped, c.granted(s)
	}
	return 0, nil
}
