package lease

import (
	"math"
	"math/bits"
	"time"
)

const (
	tickShift = 18

	// Tick is the grain of a wheel: how late a timer can be.
	Tick time.Duration = 1 << tickShift

	nearBits = 10 // levels 0 and 1 have 2^10 slots each
	farBits  = 6  // level 2 has 2^6
	nearSize = 1 << nearBits
	farSize  = 1 << farBits

	// The slots of level 0 begin at 0, then come those of the levels above.
	level1 = nearSize
	level2 = 2 * nearSize
	due    = level2 + farSize // for timers that are added too late
	none   = due + 1          // no slot
)

// slots are the lists of a wheel, with a bit for each that is not empty.
//
// What a slot stands for follows from done, the last tick that is dealt with: a
// level holds the ticks (or groups of ticks) right behind that of done, as many
// as it has slots, each in the slot of its number modulo their number.
type slots struct {
	first [none]Timer         // 0 if the slot is empty
	used  [none>>6 + 1]uint64 // bit s is set if slot s is not empty
	words uint64              // bit i is set if used[i] is not 0
}

func (s *slots) has(slot uint16) bool { return s.first[slot] != 0 }

func (s *slots) set(slot uint16, t Timer) {
	s.first[slot] = t
	s.used[slot>>6] |= 1 << (slot & 63)
	s.words |= 1 << (slot >> 6)
}

func (s *slots) clear(slot uint16) {
	s.first[slot] = 0
	s.used[slot>>6] &^= 1 << (slot & 63)
	if s.used[slot>>6] == 0 {
		s.words &^= 1 << (slot >> 6)
	}
}

// tickOf returns the first tick at whose start the instant at has passed.
func tickOf(at Instant) int64 { return int64((at-1)>>tickShift) + 1 }

func slot0(tick int64) uint16 { return uint16(tick & (nearSize - 1)) }
func slot1(tick int64) uint16 { return level1 + slot0(tick>>nearBits) }
func slot2(tick int64) uint16 { return level2 + uint16(tick>>(2*nearBits)&(farSize-1)) }

// slotOf returns the slot for a timer of a tick after done, and the tick at
// which the wheel must look at that slot.
func slotOf(tick, done int64) (slot uint16, start int64) {
	if tick-done <= nearSize {
		return slot0(tick), tick
	}
	const shift1, shift2 = nearBits, 2 * nearBits
	if tick>>shift1-done>>shift1 <= nearSize {
		return slot1(tick), tick >> shift1 << shift1
	}
	last := (done>>shift2 + farSize) << shift2
	start = min(tick>>shift2<<shift2, last)
	return slot2(start), start
}

// start returns the tick at which the wheel must look at a slot that holds a
// timer.
func (s *slots) start(slot uint16, done int64) int64 {
	switch {
	case slot < level1:
		return behind(done, int64(slot), nearSize)
	case slot < level2:
		return behind(done>>nearBits, int64(slot-level1), nearSize) << nearBits
	case slot < due:
		return behind(done>>(2*nearBits), int64(slot-level2), farSize) << (2 * nearBits)
	default:
		return done
	}
}

// behind returns the first number after n that is slot modulo size.
func behind(n, slot, size int64) int64 { return n + 1 + (slot-n-1)&(size-1) }

// earliest returns the least start of the slots that hold a timer, leaving out
// due; false if there is none.
func (s *slots) earliest(done int64) (tick int64, ok bool) {
	tick = math.MaxInt64
	if slot := s.after(slot0(done), nearSize/64); slot != none {
		tick = s.start(slot, done)
	}
	if slot := s.after(slot1(done), nearSize/64); slot != none {
		tick = min(tick, s.start(slot, done))
	}
	if slot := s.after(slot2(done), farSize/64); slot != none {
		tick = min(tick, s.start(slot, done))
	}
	return tick, tick != math.MaxInt64
}

// after returns the first slot with a timer behind the given one, going round
// within its level, which has so many words of used; or none.
func (s *slots) after(slot uint16, words uint16) uint16 {
	base := slot >> 6 &^ (words - 1)
	level := s.words >> base & (1<<words - 1)
	if level == 0 {
		return none
	}
	if rest := s.used[slot>>6] >> (slot & 63) >> 1; rest != 0 {
		return slot + 1 + uint16(bits.TrailingZeros64(rest))
	}
	i := slot>>6 - base + 1
	if rest := level >> i << i; rest != 0 {
		level = rest
	}
	w := base + uint16(bits.TrailingZeros64(level))
	return w<<6 | uint16(bits.TrailingZeros64(s.used[w]))
}
