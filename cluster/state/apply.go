package state

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ticketing/shard"
)

// ErrMisfit is wrapped by errors about an entry whose content does not fit the
// state. Nothing of such an entry was applied but its index and term, here and
// on every other node.
var ErrMisfit = errors.New("does not fit the state")

// ErrOrder is wrapped by errors about an entry that is not the next one.
// Nothing has changed.
var ErrOrder = errors.New("not the next entry")

func misfit(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrMisfit)...)
}

// undo is what a record changed: the key was held like this, or free if the
// token is 0. The key aliases the entry.
type undo struct {
	key []byte
	was held
}

// Apply applies the entry at index. Entries without data only move index and
// term. The errors wrap ErrMisfit (the node goes on, its leader must not),
// ErrVersion or ErrOrder (the node must stop; nothing has changed).
func (m *Machine) Apply(index, term uint64, data []byte) error {
	if index != m.index+1 || term < m.term {
		return fmt.Errorf("entry %d of term %d after entry %d of term %d: %w", index, term, m.index, m.term, ErrOrder)
	}
	var h Header
	var err error
	if len(data) != 0 {
		if h, err = DecodeHeader(data); errors.Is(err, ErrVersion) {
			return fmt.Errorf("entry %d: %w", index, err)
		}
	}
	if term > m.term {
		m.gaps.clear() // what an earlier leader had not proposed is lost for ever
	}
	m.index, m.term = index, term
	if err == nil && len(data) != 0 {
		err = m.applyContent(h.Kind, data[headerSize:])
	}
	m.maybeCheckpoint()
	if err != nil {
		return fmt.Errorf("entry %d: %w", index, err)
	}
	return nil
}

func (m *Machine) applyContent(kind byte, content []byte) error {
	switch kind {
	case KindBatch:
		return m.applyBatch(content)
	case KindMember:
		return m.applyMember(content)
	}
	return misfit("an entry of kind %q", kind)
}

func (m *Machine) applyMember(content []byte) error {
	if len(content) == 9 && content[0] == memberRemoved {
		return m.dropMember(binary.BigEndian.Uint64(content[1:]))
	}
	if len(content) > 0 && content[0] == memberSet {
		if member, rest, ok := parseMember(content[1:]); ok && len(rest) == 0 {
			return m.setMember(member)
		}
	}
	return misfit("no change of a member")
}

// applyBatch applies records in their order, all or none.
func (m *Machine) applyBatch(records []byte) error {
	counter, keysHash := m.counter, m.keysHash
	m.past.copy(&m.gaps)
	m.undo = m.undo[:0]
	var err error
	for at := 0; at < len(records) && err == nil; {
		r, n, ok := shard.ParseRecord(records[at:])
		if !ok {
			err = misfit("no record at byte %d", headerSize+at)
			break
		}
		at += n
		err = m.applyRecord(&r)
	}
	if err != nil {
		m.counter, m.keysHash = counter, keysHash
		m.gaps.copy(&m.past)
		m.rollBack()
	}
	clear(m.undo) // keys alias the entry
	return err
}

func (m *Machine) applyRecord(r *shard.Record) error {
	was, isHeld := m.keys[string(r.Key)]
	if r.Kind != shard.RecordGrant {
		if was.token != r.Token {
			return misfit("%q of token %d on key %q, held by %d", r.Kind, r.Token, r.Key, was.token)
		}
		m.undo = append(m.undo, undo{r.Key, was})
		m.keysHash ^= hashKey(r.Key, was)
		delete(m.keys, string(r.Key))
		return nil
	}
	switch {
	case isHeld:
		return misfit("grant of key %q to token %d, held by %d", r.Key, r.Token, was.token)
	case len(m.keys) == MaxKeys:
		return misfit("grant of one key more than %d", MaxKeys)
	}
	if err := m.issue(r.Token); err != nil {
		return err
	}
	m.undo = append(m.undo, undo{key: r.Key})
	now := held{r.Token, r.Lease}
	m.keysHash ^= hashKey(r.Key, now)
	m.keys[string(r.Key)] = now
	return nil
}

// issue takes note of a token that is granted.
func (m *Machine) issue(token uint64) error {
	if token <= m.counter {
		if !m.gaps.take(token) {
			return misfit("token %d was issued before, the last is %d", token, m.counter)
		}
		return nil
	}
	skipped := token - m.counter - 1
	switch {
	case skipped >= maxJump:
		return misfit("token %d is more than %d after the last, %d", token, maxJump, m.counter)
	case m.gaps.missing+skipped > maxMissing:
		return misfit("token %d leaves out more than %d tokens in all", token, maxMissing)
	case skipped > 0:
		m.gaps.skip(m.counter+1, token-1)
	}
	m.counter = token
	return nil
}

// rollBack makes the keys what they were before the entry.
func (m *Machine) rollBack() {
	for i := len(m.undo) - 1; i >= 0; i-- {
		if u := &m.undo[i]; u.was.token == 0 {
			delete(m.keys, string(u.key))
		} else {
			m.keys[string(u.key)] = u.was
		}
	}
}
