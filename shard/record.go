package shard

import "encoding/binary"

// The kinds of a Record.
const (
	RecordGrant   byte = 'g'
	RecordRelease byte = 'r'
	RecordExpire  byte = 'x'
)

// A Record is one change of who holds a key, as it is replicated:
//
//	Grant   = 'g' token(8) lease(1) keyLen(1) key
//	Release = 'r' token(8)          keyLen(1) key
//	Expire  = 'x' token(8)          keyLen(1) key
//
// Tokens are big-endian and at least 1, leases 1 to 250 s, keys 1 to 128 bytes.
type Record struct {
	Kind  byte
	Token uint64
	Lease uint8  // seconds; 0 but in a grant
	Key   []byte // of a parsed record: aliases what was parsed
}

// ParseRecord takes the record at the front of b, of n bytes. It is not ok if b
// does not begin with a whole record whose fields are in range.
func ParseRecord(b []byte) (r Record, n int, ok bool) {
	if len(b) == 0 {
		return Record{}, 0, false
	}
	head := 1 + 8 + 1
	switch b[0] {
	case RecordGrant:
		head++
	case RecordRelease, RecordExpire:
	default:
		return Record{}, 0, false
	}
	if len(b) < head {
		return Record{}, 0, false
	}
	r.Kind, r.Token = b[0], binary.BigEndian.Uint64(b[1:])
	if r.Kind == RecordGrant {
		if r.Lease = b[9]; r.Lease < 1 || r.Lease > maxRecordLease {
			return Record{}, 0, false
		}
	}
	length := int(b[head-1])
	n = head + length
	if r.Token == 0 || length < 1 || length > maxRecordKey || len(b) < n {
		return Record{}, 0, false
	}
	r.Key = b[head:n:n]
	return r, n, true
}

// The ranges of §2, as ParseRecord holds records to them.
const (
	maxRecordLease = 250
	maxRecordKey   = 128
)

// AppendRecord appends a record whose fields are in range.
func AppendRecord(dst []byte, r *Record) []byte {
	dst = append(dst, r.Kind)
	dst = binary.BigEndian.AppendUint64(dst, r.Token)
	if r.Kind == RecordGrant {
		dst = append(dst, r.Lease)
	}
	dst = append(dst, uint8(len(r.Key)))
	return append(dst, r.Key...)
}
