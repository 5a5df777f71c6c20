package state

import (
	"maps"
	"slices"

	"ticketing/shard"
)

// model is the specification's idea of the state, copied as a whole for each
// entry, with no thought for speed.
type model struct {
	index, term uint64
	counter     uint64
	floor       uint64          // tokens up to here are issued or lost
	issued      map[uint64]bool // tokens above floor
	keys        map[string]held
	members     map[uint64]Member
}

func newModel() *model {
	return &model{issued: map[uint64]bool{}, keys: map[string]held{}, members: map[uint64]Member{}}
}

func (m *model) clone() *model {
	c := *m
	c.issued, c.keys, c.members = maps.Clone(m.issued), maps.Clone(m.keys), maps.Clone(m.members)
	return &c
}

// move goes on to the next entry.
func (m *model) move(term uint64) {
	m.index++
	if term > m.term {
		m.term, m.floor = term, m.counter
		clear(m.issued)
	}
}

// batch returns what the records make of m, nil if they do not fit.
func (m *model) batch(records []shard.Record) *model {
	c := m.clone()
	for i := range records {
		if !c.record(&records[i]) {
			return nil
		}
	}
	return c
}

func (m *model) record(r *shard.Record) bool {
	holder := m.keys[string(r.Key)].token // 0: free
	if r.Kind != shard.RecordGrant {
		delete(m.keys, string(r.Key))
		return holder != 0 && holder == r.Token
	}
	m.keys[string(r.Key)] = held{r.Token, r.Lease}
	fits := holder == 0 && len(m.keys) <= 65536 && r.Token > m.floor && !m.issued[r.Token]
	if r.Token > m.counter {
		fits = fits && r.Token-m.counter <= 131072
		m.counter = r.Token
	}
	m.issued[r.Token] = true
	return fits && m.missingCount() <= 262144
}

// missingCount is how many tokens may still come below the counter.
func (m *model) missingCount() uint64 { return m.counter - m.floor - uint64(len(m.issued)) }

// missing lists the first of them.
func (m *model) missing(most int) (all []uint64) {
	for token := m.floor + 1; token < m.counter && len(all) < most; token++ {
		if !m.issued[token] {
			all = append(all, token)
		}
	}
	return all
}

// setMember reports whether the member may be set, and sets it.
func (m *model) setMember(member Member) bool {
	for id, other := range m.members {
		if id != member.ID && other.Name == member.Name {
			return false
		}
	}
	if _, known := m.members[member.ID]; !known && len(m.members) == 16 {
		return false
	}
	m.members[member.ID] = member
	return true
}

func (m *model) dropMember(id uint64) bool {
	_, known := m.members[id]
	delete(m.members, id)
	return known
}

// sortedKeys returns the held keys in order.
func (m *model) sortedKeys() []string { return slices.Sorted(maps.Keys(m.keys)) }
