package state

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// A snapshot is, numbers big-endian:
//
//	"TKSN" version(4) index(8) term(8) counter(8)
//	gaps(4)    × first(8) last(8)                rising
//	members(4) × id(8) 4 × length(1) text        by rising ID
//	keys(4)    × token(8) lease(1) length(1) key by rising key
//	CRC-32C of all before (4)
const snapshotMagic = "TKSN"

// SnapshotVersion is that of the snapshots this package writes, and reads.
const SnapshotVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot returns the whole state. Equal states give equal bytes.
func (m *Machine) Snapshot() []byte {
	keys := slices.Sorted(maps.Keys(m.keys))
	size := 64 + 16*len(m.gaps.spans) + (8+4*256)*len(m.members)
	for _, key := range keys {
		size += 8 + 1 + 1 + len(key)
	}
	b := append(make([]byte, 0, size), snapshotMagic...)
	b = binary.BigEndian.AppendUint32(b, SnapshotVersion)
	b = binary.BigEndian.AppendUint64(b, m.index)
	b = binary.BigEndian.AppendUint64(b, m.term)
	b = binary.BigEndian.AppendUint64(b, m.counter)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.gaps.spans)))
	for _, s := range m.gaps.spans {
		b = binary.BigEndian.AppendUint64(b, s.first)
		b = binary.BigEndian.AppendUint64(b, s.last)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.members)))
	for i := range m.members {
		b = appendMember(b, &m.members[i])
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(keys)))
	for _, key := range keys {
		h := m.keys[key]
		b = binary.BigEndian.AppendUint64(b, h.token)
		b = append(b, h.lease, uint8(len(key)))
		b = append(b, key...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}
