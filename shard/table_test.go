package shard

import (
	"testing"

	"pgregory.net/rapid"
)

// checkIndex looks at every slot of an index: each is in the table that is
// asked for it, with no empty slot between its home and its place.
func checkIndex(f failer, x *index) {
	f.Helper()
	if noSlots != (segment{}) {
		f.Fatalf("the segment of no slots has slots")
	}
	n := 0
	for _, t := range x.tables() {
		pos := uint32(0)
		for t.at(pos) != 0 {
			pos++
		}
		run := uint32(0) // full slots before pos
		for range t.mask + 1 {
			pos = (pos + 1) & t.mask
			slot := t.at(pos)
			if slot == 0 {
				run = 0
				continue
			}
			fragment := uint32(slot >> 32)
			if x.tableOf(fragment) != t {
				f.Fatalf("fragment %#x is in the table where nobody looks", fragment)
			}
			if (pos-t.home(fragment))&t.mask > run {
				f.Fatalf("fragment %#x is at %d, behind an empty slot", fragment, pos)
			}
			run++
			n++
		}
	}
	if n != x.count {
		f.Fatalf("%d slots filled, count %d", n, x.count)
	}
}

// tables returns the tables that an index has now.
func (x *index) tables() []*table {
	if x.moving() {
		return []*table{&x.main, &x.old}
	}
	return []*table{&x.main}
}

// searchIn returns where a slot is, like locate, but comes back if it is not there.
func searchIn(x *index, want uint64) (t *table, pos uint32, found bool) {
	t = x.tableOf(uint32(want >> 32))
	for pos = t.home(uint32(want >> 32)); ; pos = (pos + 1) & t.mask {
		switch t.at(pos) {
		case want:
			return t, pos, true
		case 0:
			return t, pos, false
		}
	}
}

// fragments are makers of fragments, from kind to hostile.
var fragments = []func(n uint32) uint32{
	func(n uint32) uint32 { return fragmentOf(uint64(n) * 0x9e3779b97f4a7c15 >> 13) }, // as a hash does
	func(n uint32) uint32 { return n << 8 },                                           // in order
	func(n uint32) uint32 { return ^(n % 16) },                                        // at the end, so that runs wrap around
	func(n uint32) uint32 { return n % 3 << 31 },                                      // two homes, and the very first
	func(n uint32) uint32 { return 0x80000000 - n%4000 },                              // around a segment's edge
	func(n uint32) uint32 { return n * 0x01000001 },
}

// TestIndexModel puts slots in and takes them out in bulk, through growth and
// shrinking, and looks for each of them.
func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		x.init()
		var live []uint64
		has := map[uint64]bool{}
		entry, moves := uint32(0), 0
		look := func() {
			checkIndex(t, &x)
			if x.count != len(live) {
				t.Fatalf("count %d, want %d", x.count, len(live))
			}
			for _, table := range x.tables() {
				for _, seg := range table.segments {
					for _, slot := range seg {
						if slot != 0 && !has[slot] {
							t.Fatalf("slot %#x is back", slot)
						}
					}
				}
			}
		}
		put := func(make func(uint32) uint32, n int) {
			for range n {
				entry++
				slot := uint64(make(entry))<<32 | uint64(entry)
				table, pos, found := searchIn(&x, slot)
				if found {
					t.Fatalf("slot %#x is there", slot)
				}
				was := x.moving()
				x.insert(table, pos, slot)
				if x.moving() && !was {
					moves++
				}
				live = append(live, slot)
				has[slot] = true
			}
		}
		cut := func(n, step int) {
			for i := 0; i < n && len(live) > 0; i++ {
				at := i * step % len(live)
				slot := live[at]
				live[at] = live[len(live)-1]
				live = live[:len(live)-1]
				delete(has, slot)
				table, pos := x.locate(uint32(slot>>32), uint32(slot))
				x.remove(table, pos)
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			kind := rapid.IntRange(0, len(fragments)-1).Draw(t, "kind")
			most := []int{4500, 800, 50, 50, 50, 800}[kind] // long runs of full slots take long
			if rapid.Bool().Draw(t, "put") {
				put(fragments[kind], rapid.IntRange(0, most).Draw(t, "n"))
			} else {
				cut(rapid.IntRange(0, 6000).Draw(t, "n"), rapid.IntRange(1, 9999).Draw(t, "step"))
			}
			look()
		}
		for len(live) > 0 {
			cut(5000, 7)
			look()
		}
		if x.moving() || len(x.main.segments) != 1 {
			t.Fatalf("emptied, and %d segments", len(x.main.segments))
		}
	})
}

// TestIndexMovesSlowly holds that growth and shrinking are spread over many
// commands, and over before the next is due.
func TestIndexMovesSlowly(t *testing.T) {
	var x index
	x.init()
	const n = 100_000
	steps, most := 0, uint32(0)
	watch := func(change func()) {
		moved, moving := x.moved, x.moving()
		change()
		if !moving || !x.moving() {
			return
		}
		steps++
		if x.moved < moved {
			t.Fatal("a move began before the last was over")
		}
		most = max(most, x.moved-moved)
		if x.main.mask < 2*segmentSlots && x.old.mask < 2*segmentSlots {
			checkIndex(t, &x) // at each step of the smallest moves
		}
	}
	for i := uint32(1); i <= n; i++ {
		f := fragments[0](i)
		table, pos, _ := searchIn(&x, uint64(f)<<32|uint64(i))
		watch(func() { x.insert(table, pos, uint64(f)<<32|uint64(i)) })
		if full := x.count * 8; full > int(x.main.mask+1)*7 {
			t.Fatalf("%d of %d slots are full", x.count, x.main.mask+1)
		}
	}
	if slots := x.main.mask + 1; slots != 1<<18 {
		t.Errorf("%d slots for %d keys", slots, n)
	}
	for i := uint32(1); i <= n; i++ {
		table, pos := x.locate(fragments[0](i), i)
		watch(func() { x.remove(table, pos) })
		if slots := int(x.main.mask) + 1; x.count > 0 && slots > segmentSlots && slots > x.count*16 {
			t.Fatalf("%d slots for %d keys", slots, x.count)
		}
	}
	if steps < n/16 || most > 200 {
		t.Errorf("%d steps, the longest %d slots", steps, most)
	}
}

// TestIndexMovesTheLast holds that what is put into the very last slot that a
// move comes to is not forgotten.
func TestIndexMovesTheLast(t *testing.T) {
	var x index
	x.init()
	put := func(home, entry uint32) (slot uint64) {
		slot = uint64(home<<(32-segmentBits))<<32 | uint64(entry)
		table, pos, _ := searchIn(&x, slot)
		x.insert(table, pos, slot)
		return slot
	}
	entry := uint32(1)
	for ; !x.moving(); entry++ {
		put(100+entry, entry)
	}
	if x.start != 1 {
		t.Fatalf("the move starts at %d", x.start)
	}
	last := put(0, entry)
	for n := uint32(0); x.moving(); n++ {
		put(1500+n, entry+1+n)
	}
	if _, _, found := searchIn(&x, last); !found {
		t.Error("it is lost")
	}
	checkIndex(t, &x)
}

// TestIndexTakesTheOldAway holds that a table being emptied gives its segments
// back on the way, and that a new one has only those it needs.
func TestIndexTakesTheOldAway(t *testing.T) {
	var x index
	x.init()
	segments := func() (n int) {
		for _, t := range x.tables() {
			for _, seg := range t.segments {
				if seg != &noSlots {
					n++
				}
			}
		}
		return n
	}
	for i := uint32(1); i <= 190_000; i++ {
		f := fragments[0](i)
		table, pos, _ := searchIn(&x, uint64(f)<<32|uint64(i))
		x.insert(table, pos, uint64(f)<<32|uint64(i))
		if have, want := segments(), len(x.main.segments)+3; have > want {
			t.Fatalf("%d segments made, the table is of %d", have, want)
		}
	}
	if x.moving() {
		t.Fatal("still moving")
	}
}
