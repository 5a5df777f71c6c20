package state

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of an entry.
const (
	KindBatch  byte = 'b' // records of shards
	KindMember byte = 'm' // one change of a member
)

// version is that of the entries this package writes, and reads.
const version = 1

// headerSize is the length of a Header in an entry.
const headerSize = 1 + 1 + 8 + 8 + 8

// A Header stands at the front of every entry that is not empty:
//
//	version(1) kind(1) proposer(8) boot(8) seq(8)
//
// It lets a node recognise what it proposed itself, in this run of its process.
type Header struct {
	Version  byte // when decoded; what is encoded has the present one
	Kind     byte // likewise
	Proposer uint64
	Boot     uint64 // random; another one each time a node starts
	Seq      uint64 // of the entry in this run of the proposer
}

// ErrVersion is wrapped by errors about an entry or a snapshot that another
// version of the program made. A node that meets one must stop: it cannot
// follow the others.
var ErrVersion = errors.New("made by another version")

// EncodeBatch appends an entry with the records of turns, which may be none.
func EncodeBatch(dst []byte, h Header, turns ...[]byte) []byte {
	h.Kind = KindBatch
	dst = appendHeader(dst, &h)
	for _, records := range turns {
		dst = append(dst, records...)
	}
	return dst
}

// The changes of a member.
const (
	memberSet     = '+' // then the member
	memberRemoved = '-' // then id(8)
)

// EncodeMember appends an entry that adds a member, or replaces what is known
// of the one with its ID. The member must be valid.
func EncodeMember(dst []byte, h Header, m Member) []byte {
	h.Kind = KindMember
	return appendMember(append(appendHeader(dst, &h), memberSet), &m)
}

// EncodeRemoval appends an entry that removes the member with an ID.
func EncodeRemoval(dst []byte, h Header, id uint64) []byte {
	h.Kind = KindMember
	return binary.BigEndian.AppendUint64(append(appendHeader(dst, &h), memberRemoved), id)
}

func appendHeader(dst []byte, h *Header) []byte {
	dst = append(dst, version, h.Kind)
	dst = binary.BigEndian.AppendUint64(dst, h.Proposer)
	dst = binary.BigEndian.AppendUint64(dst, h.Boot)
	return binary.BigEndian.AppendUint64(dst, h.Seq)
}

// DecodeHeader returns the header of an entry that is not empty. Its errors
// wrap ErrVersion or ErrMisfit.
func DecodeHeader(data []byte) (Header, error) {
	switch {
	case len(data) == 0:
		return Header{}, misfit("the entry is empty")
	case data[0] != version:
		return Header{}, fmt.Errorf("entry of version %d, this program knows version %d: %w", data[0], version, ErrVersion)
	case len(data) < headerSize:
		return Header{}, misfit("%d bytes are no entry", len(data))
	}
	return Header{
		Version:  data[0],
		Kind:     data[1],
		Proposer: binary.BigEndian.Uint64(data[2:]),
		Boot:     binary.BigEndian.Uint64(data[10:]),
		Seq:      binary.BigEndian.Uint64(data[18:]),
	}, nil
}
