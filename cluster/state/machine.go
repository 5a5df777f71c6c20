package state

import (
	"cmp"
	"slices"
)

// MaxKeys is how many keys may be held in a cluster (§7).
const MaxKeys = 65536

// held is what the machine keeps of a key that is held.
type held struct {
	token uint64
	lease uint8 // seconds
}

// Held is a key that is held.
type Held struct {
	Key   string
	Token uint64
	Lease uint8 // seconds, in all
}

// A Machine is the replicated state after the entry at Index. It belongs to one
// goroutine.
type Machine struct {
	index, term uint64
	counter     uint64 // the greatest token there was; 0: none yet
	gaps        gaps   // tokens below counter that have not come yet
	members     []Member
	keys        map[string]held
	keysHash    uint64 // XOR of the hash of each key

	checkpoints [keptCheckpoints]checkpoint

	undo []undo // of the entry that is being applied; reused
	past gaps   // the gaps before it; reused
}

// New returns the state before the first entry of a log.
func New() *Machine { return &Machine{keys: map[string]held{}} }

// Index is the index of the entry that was applied last; 0: none.
func (m *Machine) Index() uint64 { return m.index }

// Term is the term of that entry.
func (m *Machine) Term() uint64 { return m.term }

// Counter is the greatest token that was granted (§5); a leader goes on from
// here.
func (m *Machine) Counter() uint64 { return m.counter }

// Len is how many keys are held.
func (m *Machine) Len() int { return len(m.keys) }

// Get returns the token that holds a key, and its lease in seconds.
func (m *Machine) Get(key []byte) (token uint64, lease uint8, ok bool) {
	h, ok := m.keys[string(key)]
	return h.token, h.lease, ok
}

// Held yields every key that is held, in the order of their tokens. Nothing
// may be applied meanwhile.
func (m *Machine) Held(yield func(Held) bool) {
	all := make([]Held, 0, len(m.keys))
	for key, h := range m.keys {
		all = append(all, Held{key, h.token, h.lease})
	}
	slices.SortFunc(all, func(a, b Held) int { return cmp.Compare(a.Token, b.Token) })
	for _, h := range all {
		if !yield(h) {
			return
		}
	}
}
