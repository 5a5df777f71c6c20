package main

import (
	"encoding/binary"
	"fmt"
	"net"
)

// protocol is how a text protocol says acquire and release. It keeps nothing of
// one connection: that is in conn.
type protocol interface {
	// appendAcquire and appendRelease append the request of a slot.
	appendAcquire(dst []byte, c *conn, s *slot) []byte
	appendRelease(dst []byte, c *conn, s *slot) []byte
	// parse handles all whole replies in b by c.granted and c.released, and
	// returns the bytes they had.
	parse(c *conn, b []byte) (int, error)
}

// preparer is a protocol that has something to say to the server beforehand.
type preparer interface {
	prepare(conn net.Conn, g *generator) error
}

// slotState is what the slot waits for.
type slotState uint8

const (
	nothing slotState = iota
	grant
	release
)

// slot makes one attempt after another on its connection.
type slot struct {
	key   key
	owner uint64
	token uint64 // Ticketing only
	sent  int64
	index uint16
	state slotState
}

// keySize is that of all keys here. The last two bytes say which slot of its
// connection a key is for, so that a reply with nothing but the key finds it.
const keySize = 24

type key [keySize]byte

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var (
	twoLetters [4096]uint16 // the letters of 12 bits
	sixBits    [256]uint16  // and back
)

func init() {
	for i := range twoLetters {
		twoLetters[i] = uint16(letters[i&63]) | uint16(letters[i>>6])<<8
	}
	for i := range letters {
		sixBits[letters[i]] = uint16(i)
	}
}

// makeKey makes a key of a slot out of two random numbers: 22 letters of them.
func makeKey(a, b uint64, slot uint16) (k key) {
	put := binary.LittleEndian.PutUint16
	for i := 0; i < 10; i += 2 {
		put(k[i:], twoLetters[a&4095])
		put(k[i+10:], twoLetters[b&4095])
		a, b = a>>12, b>>12
	}
	put(k[20:], twoLetters[a&15|b&15<<4])
	put(k[22:], twoLetters[slot])
	return k
}

// slotOf returns the slot of the connection that a key is for.
func (c *conn) slotOf(k []byte) *slot {
	i := int(sixBits[k[22]] | sixBits[k[23]]<<6)
	if i >= len(c.slots) {
		return nil
	}
	return &c.slots[i]
}

// unexpected is the error of a reply that does not follow from what was asked.
func unexpected(b []byte, s *slot) error {
	if s == nil {
		return fmt.Errorf("a reply to nothing: %q", b[:min(len(b), 60)])
	}
	return fmt.Errorf("an unexpected reply: %q (key %s, state %d)", b[:min(len(b), 60)], s.key, s.state)
}
