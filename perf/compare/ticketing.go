package main

import (
	"encoding/binary"

	"ticketing/codec"
)

// ticketingProtocol is docs/protocol.md.
type ticketingProtocol struct{}

func newTicketingProtocol() protocol { return ticketingProtocol{} }

func (ticketingProtocol) appendAcquire(dst []byte, c *conn, s *slot) []byte {
	return codec.AppendAcquire(dst, s.owner, c.g.wait, c.g.lease, s.key[:])
}

func (ticketingProtocol) appendRelease(dst []byte, c *conn, s *slot) []byte {
	return codec.AppendRelease(dst, s.token, s.key[:])
}

// The sizes of replies about keys of keySize.
const (
	grantedSize  = 1 + 8 + 8 + keySize + 1
	releasedSize = 1 + 8 + keySize + 1
)

func (ticketingProtocol) parse(c *conn, b []byte) (used int, err error) {
	for used < len(b) {
		f := b[used:]
		var s *slot
		switch codec.Op(f[0]) {
		case codec.OpGranted:
			if len(f) < grantedSize {
				return used, nil
			}
			token, owner := binary.BigEndian.Uint64(f[1:]), binary.BigEndian.Uint64(f[9:])
			if i := int(owner & 4095); i < len(c.slots) {
				s = &c.slots[i]
			}
			if s == nil || s.state != grant || s.owner != owner || token == 0 || key(f[17:17+keySize]) != s.key || f[grantedSize-1] != '\n' {
				return used, unexpected(f, s)
			}
			s.token = token
			if err := c.granted(s); err != nil {
				return used, err
			}
			used += grantedSize
		case codec.OpReleased:
			if len(f) < releasedSize {
				return used, nil
			}
			s = c.releasing(f[9:9+keySize], binary.BigEndian.Uint64(f[1:]))
			if s == nil || f[releasedSize-1] != '\n' {
				return used, unexpected(f, s)
			}
			c.released(s)
			used += releasedSize
		default:
			return used, unexpected(f, nil)
		}
	}
	return used, nil
}

// releasing finds the slot that gives the key back under the token.
func (c *conn) releasing(k []byte, token uint64) *slot {
	if c.g.contended == 0 {
		if s := c.slotOf(k); s != nil && s.state == release && s.token == token && key(k) == s.key {
			return s
		}
		return nil
	}
	for i := range c.slots { // several slots share a key
		if s := &c.slots[i]; s.state == release && s.token == token && key(k) == s.key {
			return s
		}
	}
	return nil
}
