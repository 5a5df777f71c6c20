package shard

import (
	"encoding/binary"

	"ticketing/internal/slab"
	"ticketing/lease"
)

// inlineKey is how long a key may be to live in its entry. Longer ones live in
// a block of 64 or 128 bytes.
const inlineKey = 28

// entry is one key: who holds it, and its queue. 64 bytes, one cache line.
type entry struct {
	token        uint64        // the holder's; 0 in no entry of a key
	deadline     lease.Instant // when the holder's lease ends; from unconfirmed on: it has not started
	fragment     uint32        // of the key's hash; finds the entry's slot in the table
	head, tail   uint32        // first and last waiter; 0 if there is no queue
	timer        lease.Timer   // set while there is a queue and a deadline, for it or earlier; else 0
	waiters      uint16        // length of the queue
	keyLen       uint8         // 1..128
	leaseSeconds uint8         // of the holder's lease
	key          [inlineKey]byte
}

// entries is the slab of entries, but keeps the entry that was freed last aside
// for the next key: a lock taken and released costs the slab nothing.
type entries struct {
	slab.Slab[entry]
	aside uint32 // 0 if there is none; its token is 0
}

// take returns an entry without queue; its other fields are the caller's to set.
func (s *entries) take() (uint32, *entry) {
	i := s.aside
	if i == 0 {
		i = s.Alloc()
	}
	s.aside = 0
	return i, s.At(i)
}

// put takes back an entry whose queue is empty.
func (s *entries) put(i uint32, e *entry) {
	if s.aside != 0 {
		s.Free(i)
	} else {
		s.aside = i
		e.token = 0
	}
	if s.Len() == 1 && s.Cap() > slab.ChunkItems { // back to the memory of the start
		s.Free(s.aside)
		s.aside = 0
	}
}

// blocks keeps the keys that are too long for their entry. Such an entry has
// its block's index in the first 4 bytes of its key field.
type blocks struct {
	middle slab.Slab[[64]byte]
	long   slab.Slab[[128]byte]
}

// keyOf returns the key of an entry, valid while the entry lives.
func (b *blocks) keyOf(e *entry) []byte {
	if e.keyLen <= inlineKey {
		return e.key[:e.keyLen]
	}
	return b.blockOf(e)
}

func (b *blocks) blockOf(e *entry) []byte {
	i := binary.LittleEndian.Uint32(e.key[:])
	if e.keyLen <= 64 {
		return b.middle.At(i)[:e.keyLen]
	}
	return b.long.At(i)[:e.keyLen]
}

// setKey gives a new entry its key.
func (b *blocks) setKey(e *entry, key []byte) {
	e.keyLen = uint8(len(key))
	if len(key) <= inlineKey {
		copy(e.key[:], key)
		return
	}
	var i uint32
	if len(key) <= 64 {
		i = b.middle.Alloc()
	} else {
		i = b.long.Alloc()
	}
	binary.LittleEndian.PutUint32(e.key[:], i)
	copy(b.blockOf(e), key)
}

// dropKey gives back what setKey took.
func (b *blocks) dropKey(e *entry) {
	switch i := binary.LittleEndian.Uint32(e.key[:]); {
	case e.keyLen <= inlineKey:
	case e.keyLen <= 64:
		b.middle.Free(i)
	default:
		b.long.Free(i)
	}
}
