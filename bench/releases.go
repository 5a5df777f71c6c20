package bench

import "math/bits"

// releaseTable finds the slot whose release a reply is about: open addressing
// by the token, with room for twice the slots there are.
type releaseTable struct {
	cells []uint16 // slot+1; 0: empty
	shift uint
}

func newReleaseTable(slots int) releaseTable {
	size := powerOfTwo(max(2*slots, 2))
	return releaseTable{cells: make([]uint16, size), shift: uint(64 - bits.TrailingZeros(uint(size)))}
}

// home spreads tokens that follow each other evenly over the table (Fibonacci
// hashing): those of one connection often do.
func (t *releaseTable) home(token uint64) int { return int(token * 0x9e3779b97f4a7c15 >> t.shift) }

func (t *releaseTable) add(slots []slot, i uint16) {
	at := t.home(slots[i].token)
	for t.cells[at] != 0 {
		at = (at + 1) & (len(t.cells) - 1)
	}
	t.cells[at] = i + 1
}

// take removes and returns a slot that releases token for the key of that name,
// or -1. Several may have the token when the server granted it repeatedly.
func (t *releaseTable) take(slots []slot, token uint64, names *keySet, name []byte) int {
	mask := len(t.cells) - 1
	for at := t.home(token); t.cells[at] != 0; at = (at + 1) & mask {
		i := t.cells[at] - 1
		if slots[i].token == token && names.is(name, slots[i].key) {
			t.empty(slots, at)
			return int(i)
		}
	}
	return -1
}

// empty removes the cell and moves up what stands behind it out of place.
func (t *releaseTable) empty(slots []slot, hole int) {
	mask := len(t.cells) - 1
	for at := (hole + 1) & mask; t.cells[at] != 0; at = (at + 1) & mask {
		home := t.home(slots[t.cells[at]-1].token)
		if (at-home)&mask >= (at-hole)&mask {
			t.cells[hole] = t.cells[at]
			hole = at
		}
	}
	t.cells[hole] = 0
}
