package state

import (
	"encoding/binary"
	"math/bits"
)

const (
	// checkpointEvery is at how many entries apart a hash is kept, and
	// keptCheckpoints how many are: enough for somebody who asks all nodes one
	// after another to find an index that all of them have passed.
	checkpointEvery = 1024
	keptCheckpoints = 64
)

// CheckpointEvery is at how many entries apart HashAt has hashes.
const CheckpointEvery = checkpointEvery

// checkpoint is the hash after the entry at index; index 0: none.
type checkpoint struct{ index, hash uint64 }

// Hash is a hash of keys, tokens, leases, counter, gaps and members. Machines
// that applied the same entries have the same; it does not depend on Go's
// version or the machine's kind, and says nothing to somebody who wants to make
// two states look alike.
func (m *Machine) Hash() uint64 {
	h := mix(m.keysHash, m.counter)
	h = mix(h, uint64(len(m.keys)))
	for _, s := range m.gaps.spans {
		h = mix(mix(h, s.first), s.last)
	}
	var text []byte
	for i := range m.members {
		text = appendMember(text[:0], &m.members[i])
		h = mixText(h, text)
	}
	return h
}

// HashAt returns the hash after the entry at index, if index is one of the last
// 64 multiples of 1024 that this machine has been at.
func (m *Machine) HashAt(index uint64) (uint64, bool) {
	c := m.checkpoints[index/checkpointEvery%keptCheckpoints]
	return c.hash, index != 0 && c.index == index
}

// Checkpoint returns the greatest index that HashAt knows; 0: none yet.
func (m *Machine) Checkpoint() uint64 {
	index := m.index - m.index%checkpointEvery
	if _, ok := m.HashAt(index); !ok {
		return 0
	}
	return index
}

// maybeCheckpoint keeps the hash if the time has come.
func (m *Machine) maybeCheckpoint() {
	if m.index%checkpointEvery == 0 {
		m.checkpoints[m.index/checkpointEvery%keptCheckpoints] = checkpoint{m.index, m.Hash()}
	}
}

// hashKey is what a held key adds to keysHash.
func hashKey[K string | []byte](key K, h held) uint64 {
	return mixText(mix(h.token, uint64(h.lease)), key)
}

// mixText mixes a text and its length into h.
func mixText[K string | []byte](h uint64, text K) uint64 {
	h = mix(h, uint64(len(text)))
	var word [8]byte
	for i := 0; i < len(text); i += len(word) {
		word = [8]byte{}
		copy(word[:], text[i:])
		h = mix(h, binary.LittleEndian.Uint64(word[:]))
	}
	return h
}

// mix makes one number of two.
func mix(h, v uint64) uint64 {
	high, low := bits.Mul64(h^0x9e3779b97f4a7c15, v^0xbf58476d1ce4e5b9)
	return high ^ low ^ bits.RotateLeft64(h, 29) ^ v
}
