package shard

// A slot of a table is fragment<<32 | index of the entry; 0 is an empty slot.
// The fragment is 32 bits made of the key's hash, and its upper bits are the
// slot's home: where a search for it starts and goes on to the first empty
// slot. A table therefore grows and shrinks in place order: what is at home at
// slot h of one is at home at 2h or 2h+1 of the next larger.

const (
	segmentBits  = 12
	segmentSlots = 1 << segmentBits // 32 KiB, an exact size class of the allocator

	// A table with n slots grows when ¾ of them are full, to ⅜, and shrinks
	// when less than 3⁄16 are, to less than ⅜.
	growNum, shrinkNum, loadDen = 12, 3, 16

	// moveSlots is how many slots each insertion or removal moves to the next
	// table, at the least. A move is over after n/16 of them: too few to fill
	// the old table (¾ + 1⁄16) or to make the new one due for a change itself.
	moveSlots = 16
)

// fragmentOf spreads the low half of a hash so that its upper bits depend on
// all of them, whatever the caller used to choose the shard.
func fragmentOf(hash uint64) uint32 { return uint32(hash) * 0x9e3779b1 }

type segment [segmentSlots]uint64

// noSlots stands for every segment that is not made yet, or not any more. It
// is never written.
var noSlots segment

// table is open addressing with linear probing over 2^n slots in segments, so
// that neither growth nor shrinking ever makes or clears much memory at once.
type table struct {
	segments []*segment
	mask     uint32 // slots - 1
	shift    uint8  // the home of a fragment is fragment >> shift
}

func newTable(bits uint8) table {
	t := table{make([]*segment, 1<<(bits-segmentBits)), 1<<bits - 1, 32 - bits}
	for i := range t.segments {
		t.segments[i] = &noSlots
	}
	return t
}

func (t *table) home(fragment uint32) uint32 { return fragment >> (t.shift & 31) }

func (t *table) at(pos uint32) uint64 {
	return t.segments[pos>>segmentBits][pos%segmentSlots]
}

// put fills the slot at pos; only put writes to a segment that may not be made.
func (t *table) put(pos uint32, slot uint64) {
	seg := &t.segments[pos>>segmentBits]
	if *seg == &noSlots {
		*seg = new(segment)
	}
	(*seg)[pos%segmentSlots] = slot
}

// insert puts a slot where a search for it will find it.
func (t *table) insert(slot uint64) {
	pos := t.home(uint32(slot >> 32))
	for t.at(pos) != 0 {
		pos = (pos + 1) & t.mask
	}
	t.put(pos, slot)
}

// cut empties the slot at hole and moves up what a search could not reach over
// an empty slot any more.
func (t *table) cut(hole uint32) {
	for pos := (hole + 1) & t.mask; ; pos = (pos + 1) & t.mask {
		slot := t.at(pos)
		if slot == 0 {
			break
		}
		if (pos-t.home(uint32(slot>>32)))&t.mask >= (pos-hole)&t.mask {
			t.segments[hole>>segmentBits][hole%segmentSlots] = slot
			hole = pos
		}
	}
	t.segments[hole>>segmentBits][hole%segmentSlots] = 0
}

// index finds entries by the fragment of their key. While it grows or shrinks
// it has two tables, and the home of a fragment in old decides which one of
// them has it: nothing is ever looked for twice.
type index struct {
	main     table
	old      table  // has what is not moved to main yet; no segments if all is
	start    uint32 // the move begins at this slot of old; the one before was empty
	moved    uint32 // so many slots from start on are moved; the last of them was empty
	count    int
	growAt   int // main is due for growth when count reaches it
	shrinkAt int // main is due for shrinking when count falls below it
}

// init makes the zero index ready.
func (x *index) init() { x.setMain(newTable(segmentBits)) }

func (x *index) setMain(t table) {
	x.main = t
	slots := int(t.mask) + 1
	x.growAt, x.shrinkAt = slots/loadDen*growNum, slots/loadDen*shrinkNum
	if slots == segmentSlots {
		x.shrinkAt = 0
	}
}

func (x *index) moving() bool { return len(x.old.segments) != 0 }

// tableOf returns the table that has a fragment if any has.
func (x *index) tableOf(fragment uint32) *table {
	if x.moving() && (x.old.home(fragment)-x.start)&x.old.mask >= x.moved {
		return &x.old
	}
	return &x.main
}

// insert fills the empty slot at pos of t, which a search for it came to.
// Positions of before are not valid after it.
func (x *index) insert(t *table, pos uint32, slot uint64) {
	t.put(pos, slot)
	x.count++
	if x.moving() {
		x.move()
	} else if x.count >= x.growAt {
		x.beginMove(32 - x.main.shift + 1)
	}
}

// remove empties the slot at pos of t. Positions of before are not valid after
// it. When the last is removed, main has one segment again and no move is on:
// each halving is over long before the next is due.
func (x *index) remove(t *table, pos uint32) {
	t.cut(pos)
	x.count--
	if x.moving() {
		x.move()
	} else if x.count < x.shrinkAt {
		x.beginMove(32 - x.main.shift - 1)
	}
}

// locate returns where an entry's slot is. It must be there: to go on without
// it would be to search forever.
func (x *index) locate(fragment, entry uint32) (*table, uint32) {
	t := x.tableOf(fragment)
	want := uint64(fragment)<<32 | uint64(entry)
	for pos := t.home(fragment); ; pos = (pos + 1) & t.mask {
		switch t.at(pos) {
		case want:
			return t, pos
		case 0:
			panic("shard: an entry is not in the index")
		}
	}
}

// beginMove makes main the old table, to be emptied into a new one of 2^bits
// slots by the insertions and removals to come.
func (x *index) beginMove(bits uint8) {
	x.old = x.main
	x.setMain(newTable(bits))
	x.start, x.moved = 0, 0
	for x.old.at(x.start) != 0 { // there are many empty ones
		x.start++
	}
	x.start = (x.start + 1) & x.old.mask
}

// move moves the next slots of old to main: at least moveSlots, and on to the
// end of the run of full slots in which those end, because only an empty slot
// parts what is at home before it from what is at home behind it.
func (x *index) move() {
	old := &x.old
	for enough := x.moved + moveSlots; ; {
		pos := (x.start + x.moved) & old.mask
		slot := old.at(pos)
		if slot != 0 {
			old.segments[pos>>segmentBits][pos%segmentSlots] = 0
			x.main.insert(slot)
		}
		x.moved++
		if pos%segmentSlots == segmentSlots-1 && pos>>segmentBits != x.start>>segmentBits {
			old.segments[pos>>segmentBits] = &noSlots // give the passed segment back
		}
		switch {
		case slot != 0:
		case x.moved > old.mask:
			x.old = table{}
			return
		case x.moved >= enough:
			return
		}
	}
}
