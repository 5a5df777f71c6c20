package slab

import "slices"

// grow makes a chunk, in the lowest place without one, and points low at it. It
// is called when every chunk is full.
func (s *Slab[T]) grow() {
	if debug && s.made == 0 {
		mustHoldNoPointers[T]()
	}
	c := len(s.chunks)
	if s.made < c {
		c = slices.Index(s.chunks, nil)
	} else {
		s.chunks = append(s.chunks, nil)
		s.heads = append(s.heads, head{})
		if c>>6 == len(s.open) {
			s.open = append(s.open, 0)
		}
	}
	s.chunks[c] = new([ChunkItems]T)
	s.heads[c] = head{words: 0xff}
	if c == 0 {
		s.heads[0].used[0] = 1 // index 0 means none
	}
	s.open[c>>6] |= 1 << (c & 63)
	s.low = c >> 6
	s.made++
}

// vacate decides what becomes of chunk c, whose last item was freed. Of two
// chunks without an item the upper goes, so chunk 0 always stays.
func (s *Slab[T]) vacate(c int) {
	if s.spare == 0 {
		s.spare = c + 1
		return
	}
	gone := max(c, s.spare-1)
	s.spare = min(c, s.spare-1) + 1
	s.chunks[gone] = nil
	s.heads[gone] = head{}
	s.open[gone>>6] &^= 1 << (gone & 63)
	s.made--
	if gone == len(s.chunks)-1 {
		s.trim()
	}
}

// trim drops the places of given-back chunks at the end, and the memory of the
// places themselves once three of four are unused.
func (s *Slab[T]) trim() {
	n := len(s.chunks)
	for s.chunks[n-1] == nil {
		n--
	}
	s.chunks = s.chunks[:n]
	s.heads = s.heads[:n]
	s.open = s.open[:(n+63)>>6]
	if cap(s.chunks) >= 16 && cap(s.chunks) > 4*n {
		s.chunks = slices.Clone(s.chunks)
		s.heads = slices.Clone(s.heads)
		s.open = slices.Clone(s.open)
	}
}
