package slab

import "math/bits"

const (
	chunkShift = 9
	chunkMask  = ChunkItems - 1

	// ChunkItems is how many items are made and given back at once: large
	// enough that a chunk of 64-byte items is 32 KiB, an exact size class of
	// the allocator, and small enough that one lone item left over from a
	// burst pins little.
	ChunkItems = 1 << chunkShift
)

// A Slab keeps items of type T, which must hold no pointers: the memory of a
// freed item is not cleared until the index is handed out again.
//
// The zero value is ready and has no memory. A slab in use keeps at most one
// chunk in which nothing is live, the lowest, so that coming and going at a
// chunk's edge allocates nothing. An emptied slab is therefore always back at
// the memory it had after its very first Alloc: one chunk.
//
// A slab must not be copied after its first use.
type Slab[T any] struct {
	chunks []*[ChunkItems]T // nil where a chunk was given back; the last is never nil
	heads  []head           // one for each of chunks
	open   []uint64         // bit c is set if chunk c is there and has a free item
	low    int              // no word of open below this one has a bit set
	made   int              // chunks that are not nil
	live   int              // items handed out
	spare  int              // 1 + the one chunk in which nothing is live; 0 if none
}

// A head says which items of a chunk are handed out. Heads stand beside the
// chunks and not in them so that a chunk is exactly as large as its items.
type head struct {
	used  [ChunkItems / 64]uint64 // a bit an item; of chunk 0 the bit of index 0 is always set
	live  uint16                  // items handed out; index 0 does not count
	words uint8                   // bit w is set if used[w] has a clear bit
}

// Alloc hands out an index that is not in use, never 0, and zeroes its item.
// It takes the lowest free index of the lowest chunk with room, so that what is
// live gathers at the bottom and chunks at the top empty out. It allocates
// memory only when every chunk is full.
func (s *Slab[T]) Alloc() uint32 {
	for s.low < len(s.open) && s.open[s.low] == 0 { // one word is 32,768 items
		s.low++
	}
	if s.low == len(s.open) {
		s.grow()
	}
	c := s.low<<6 | bits.TrailingZeros64(s.open[s.low])
	h := &s.heads[c]
	w := bits.TrailingZeros8(h.words)
	b := bits.TrailingZeros64(^h.used[w])
	h.used[w] |= 1 << b
	if h.used[w] == ^uint64(0) {
		h.words &^= 1 << w
		if h.words == 0 {
			s.open[s.low] &^= 1 << (c & 63)
		}
	}
	if h.live == 0 {
		s.spare = 0 // this was it: there is never another
	}
	h.live++
	s.live++
	j := w<<6 | b
	var zero T
	s.chunks[c][j] = zero
	return uint32(c<<chunkShift | j)
}

// At returns the item of an index that is handed out. The pointer is good until
// the index is freed.
func (s *Slab[T]) At(i uint32) *T {
	if debug {
		s.mustBeLive(i)
	}
	return &s.chunks[i>>chunkShift][i&chunkMask]
}

// Free takes an index back. Freeing an index that is not handed out panics:
// whoever does that would next give one item to two owners.
func (s *Slab[T]) Free(i uint32) {
	c, w, bit := int(i>>chunkShift), i&chunkMask>>6, uint64(1)<<(i&63)
	if c >= len(s.heads) || i == 0 || s.heads[c].used[w]&bit == 0 {
		panic("slab: Free of an index that is not in use")
	}
	if debug {
		scribble(s.At(i))
	}
	h := &s.heads[c]
	h.used[w] &^= bit
	h.words |= 1 << w
	s.open[c>>6] |= 1 << (c & 63)
	s.low = min(s.low, c>>6)
	h.live--
	s.live--
	if h.live == 0 {
		s.vacate(c)
	}
}

// Len returns the number of items handed out.
func (s *Slab[T]) Len() int { return s.live }

// Cap returns the number of items there is memory for. It is 0 before the first
// Alloc and never less than one chunk's after it.
func (s *Slab[T]) Cap() int { return max(0, s.made*ChunkItems-1) } // index 0 is no item

// Live calls f for the live items in order of their index, starting at from (0
// begins), and returns where to go on: the index to pass as from in the next
// call, or 0 when the end is reached. It stops after budget steps; an item is a step, and so is
// a chunk without one. f may free the item it is called for, and any other.
// Items handed out meanwhile may or may not be seen.
func (s *Slab[T]) Live(from uint32, budget int, f func(i uint32)) (next uint32) {
	from = max(from, 1) // index 0 is marked used and is no item
	c, j := int(from>>chunkShift), from&chunkMask
	for ; c < len(s.heads); budget-- { // f may free, and so shorten heads
		if budget <= 0 {
			return uint32(c<<chunkShift) | j
		}
		k, ok := s.heads[c].after(j)
		if ok {
			f(uint32(c<<chunkShift) | k)
			j = k + 1
		}
		if !ok || j == ChunkItems {
			c, j = c+1, 0
		}
	}
	return 0
}

// after returns the first live item of the chunk at or behind j.
func (h *head) after(j uint32) (uint32, bool) {
	if h.live == 0 {
		return 0, false
	}
	word := h.used[j>>6] >> (j & 63) << (j & 63)
	for w := j >> 6; ; word = h.used[w] {
		if word != 0 {
			return w<<6 | uint32(bits.TrailingZeros64(word)), true
		}
		if w++; w == uint32(len(h.used)) {
			return 0, false
		}
	}
}
