package state

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// MaxMembers is how many members a cluster may have: far more than are of use.
const MaxMembers = 16

// A Member is a node of the cluster as all of them know it. Texts are at most
// 255 bytes.
type Member struct {
	ID       uint64 // of Raft; never 0
	Name     string
	Peer     string // host:port for the other nodes
	Client   string // host:port for clients; what M and L say (§9)
	Instance string // names the data directory; another one under the same ID is refused
}

// Members returns the members in the order of their IDs.
func (m *Machine) Members() []Member { return slices.Clone(m.members) }

// Member returns the member with an ID.
func (m *Machine) Member(id uint64) (Member, bool) {
	i, ok := m.findMember(id)
	if !ok {
		return Member{}, false
	}
	return m.members[i], true
}

func (m *Machine) findMember(id uint64) (int, bool) {
	return slices.BinarySearchFunc(m.members, id, func(m Member, id uint64) int { return cmp.Compare(m.ID, id) })
}

// setMember adds a member or replaces what is known of it.
func (m *Machine) setMember(member Member) error {
	for i := range m.members {
		if other := &m.members[i]; other.ID != member.ID && other.Name == member.Name {
			return misfit("member %d has the name %q of member %d", member.ID, member.Name, other.ID)
		}
	}
	i, known := m.findMember(member.ID)
	switch {
	case known:
		m.members[i] = member
	case len(m.members) == MaxMembers:
		return misfit("member %q is one more than the %d there may be", member.Name, MaxMembers)
	default:
		m.members = slices.Insert(m.members, i, member)
	}
	return nil
}

func (m *Machine) dropMember(id uint64) error {
	i, known := m.findMember(id)
	if !known {
		return misfit("member %d, to be removed, is none", id)
	}
	m.members = slices.Delete(m.members, i, i+1)
	return nil
}

// appendMember appends id(8) and name, peer, client and instance, each as
// length(1) and text.
func appendMember(dst []byte, m *Member) []byte {
	dst = binary.BigEndian.AppendUint64(dst, m.ID)
	for _, text := range []string{m.Name, m.Peer, m.Client, m.Instance} {
		dst = append(dst, uint8(len(text)))
		dst = append(dst, text...)
	}
	return dst
}

// parseMember takes a member from the front of b and returns the rest.
func parseMember(b []byte) (m Member, rest []byte, ok bool) {
	if len(b) < 8 {
		return Member{}, nil, false
	}
	m.ID, b = binary.BigEndian.Uint64(b), b[8:]
	for _, into := range []*string{&m.Name, &m.Peer, &m.Client, &m.Instance} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return Member{}, nil, false
		}
		*into, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	}
	return m, b, m.Validate() == nil
}

// Validate reports what of a member cannot be replicated.
func (m *Member) Validate() error {
	switch {
	case m.ID == 0:
		return fmt.Errorf("member %q has ID 0", m.Name)
	case m.Name == "":
		return fmt.Errorf("member %d has no name", m.ID)
	}
	for _, text := range []string{m.Name, m.Peer, m.Client, m.Instance} {
		if len(text) > 255 {
			return fmt.Errorf("%.20q... of member %d has %d bytes; allowed are 255", text, m.ID, len(text))
		}
		if strings.ContainsAny(text, "\n ") {
			return fmt.Errorf("%q of member %d has a space or a line's end in it", text, m.ID)
		}
	}
	return nil
}
