package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// ErrSnapshot is wrapped by errors about bytes that are no snapshot: cut,
// changed, or breaking what every state keeps.
var ErrSnapshot = errors.New("not a snapshot that can be trusted")

func bad(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrSnapshot)...)
}

// The ranges of §2.
const (
	maxKey   = 128
	maxLease = 250
)

// Load returns the machine whose Snapshot data is. Its errors wrap ErrSnapshot,
// or ErrVersion if another version of the program made it.
func Load(data []byte) (*Machine, error) {
	const head, tail = len(snapshotMagic) + 4, 4
	if len(data) < head || string(data[:len(snapshotMagic)]) != snapshotMagic {
		return nil, bad("%d bytes do not begin like one", len(data))
	}
	if v := binary.BigEndian.Uint32(data[len(snapshotMagic):]); v != SnapshotVersion {
		return nil, fmt.Errorf("snapshot of version %d, this program knows version %d: %w", v, SnapshotVersion, ErrVersion)
	}
	if len(data) < head+tail {
		return nil, bad("%d bytes are too few", len(data))
	}
	end := len(data) - tail
	if want, got := binary.BigEndian.Uint32(data[end:]), crc32.Checksum(data[:end], castagnoli); want != got {
		return nil, bad("checksum %08x, want %08x", got, want)
	}
	m := New()
	r := reader{data: data[head:end]}
	m.index, m.term, m.counter = r.number(), r.number(), r.number()
	for _, load := range []func(*reader) error{m.loadGaps, m.loadMembers, m.loadKeys} {
		if err := load(&r); err != nil {
			return nil, err
		}
	}
	if r.cut || len(r.data) != 0 {
		return nil, bad("its length is not what its content says")
	}
	m.maybeCheckpoint()
	return m, nil
}

func (m *Machine) loadGaps(r *reader) error {
	for range r.count(16) {
		m.gaps.spans = append(m.gaps.spans, span{r.number(), r.number()})
	}
	if what := m.gaps.check(m.counter); what != "" {
		return bad("%s", what)
	}
	return nil
}

func (m *Machine) loadMembers(r *reader) error {
	for range r.count(8 + 4) {
		member, rest, ok := parseMember(r.data)
		if !ok {
			return bad("no member")
		}
		if n := len(m.members); n > 0 && m.members[n-1].ID >= member.ID {
			return bad("members are not in order")
		}
		if err := m.setMember(member); err != nil {
			return bad("%v", err)
		}
		r.data = rest
	}
	return nil
}

func (m *Machine) loadKeys(r *reader) error {
	count := r.count(8 + 1 + 1 + 1)
	if count > MaxKeys {
		return bad("%d keys, allowed are %d", count, MaxKeys)
	}
	m.keys = make(map[string]held, count)
	tokens := make([]uint64, 0, count)
	last := ""
	for range count {
		h := held{r.number(), r.byte()}
		key := string(r.take(int(r.byte())))
		switch {
		case len(key) < 1 || len(key) > maxKey || h.lease < 1 || h.lease > maxLease:
			return bad("key %q with a lease of %d s", key, h.lease)
		case key <= last:
			return bad("key %q after %q", key, last)
		case h.token == 0 || h.token > m.counter:
			return bad("key %q is held by token %d, the last is %d", key, h.token, m.counter)
		}
		if _, missing := m.gaps.find(h.token); missing {
			return bad("key %q is held by token %d, which was not issued", key, h.token)
		}
		m.keys[key] = h
		m.keysHash ^= hashKey(key, h)
		tokens = append(tokens, h.token)
		last = key
	}
	slices.Sort(tokens)
	if len(slices.Compact(tokens)) != count {
		return bad("a token holds two keys")
	}
	return nil
}

// reader takes fields from the front of data. When there are not enough bytes
// it is cut, and everything it gives from then on is zero.
type reader struct {
	data []byte
	cut  bool
}

func (r *reader) take(n int) []byte {
	if len(r.data) < n {
		r.data, r.cut = nil, true
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) number() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// count takes how many items of at least size bytes follow. If they cannot all
// be there it is none, and cut: a wrong count must not cost memory.
func (r *reader) count(size int) int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n)*uint64(size) > uint64(len(r.data)) {
		r.data, r.cut = nil, true
		return 0
	}
	return int(n)
}
