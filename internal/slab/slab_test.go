package slab

import (
	"testing"

	"pgregory.net/rapid"
)

type item struct {
	tag  uint64
	rest [7]uint64
}

// TestModel runs random allocations, frees and walks against a map.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Slab[item]
		model := map[uint32]uint64{}
		var order []uint32 // the live indices, for picking one
		tag := uint64(0)
		alloc := func(n int) {
			for range n {
				i := s.Alloc()
				if _, taken := model[i]; taken || i == 0 {
					t.Fatalf("Alloc handed out %d, taken = %v", i, taken)
				}
				if *s.At(i) != (item{}) {
					t.Fatalf("item %d is not zero: %v", i, *s.At(i))
				}
				tag++
				*s.At(i) = item{tag: tag, rest: [7]uint64{6: tag}}
				model[i] = tag
				order = append(order, i)
			}
		}
		free := func(n, at, step int) {
			for range n {
				if len(order) == 0 {
					return
				}
				at = (at + step) % len(order)
				i := order[at]
				order[at] = order[len(order)-1]
				order = order[:len(order)-1]
				delete(model, i)
				s.Free(i)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) { alloc(rapid.IntRange(1, 3*ChunkItems).Draw(t, "n")) },
			"free": func(t *rapid.T) {
				n := rapid.IntRange(1, 3*ChunkItems).Draw(t, "n")
				free(n, rapid.IntRange(0, 1<<16).Draw(t, "at"), rapid.IntRange(0, 7).Draw(t, "step"))
			},
			"free all": func(*rapid.T) {
				free(len(order), 0, 1)
				if s.Len() != 0 || s.Cap() > ChunkItems {
					t.Fatalf("emptied: Len %d, Cap %d", s.Len(), s.Cap())
				}
			},
			"": func(t *rapid.T) {
				if s.Len() != len(model) || s.Cap() < s.Len() {
					t.Fatalf("Len %d, Cap %d, want %d live", s.Len(), s.Cap(), len(model))
				}
				checkShape(t, &s)
				budget := rapid.IntRange(1, 2*ChunkItems).Draw(t, "budget")
				if seen := walk(t, &s, model, budget); seen != len(model) {
					t.Fatalf("Live saw %d of %d items", seen, len(model))
				}
			},
		})
	})
}

// walk goes once over the slab in steps of budget and checks each item seen.
func walk(t *rapid.T, s *Slab[item], model map[uint32]uint64, budget int) (seen int) {
	last, from := uint32(0), uint32(0)
	for {
		calls := 0
		from = s.Live(from, budget, func(i uint32) {
			if calls++; calls > budget || i <= last {
				t.Fatalf("Live: call %d of %d, index %d after %d", calls, budget, i, last)
			}
			last = i
			if x := s.At(i); x.tag != model[i] || x.rest[6] != model[i] {
				t.Fatalf("item %d holds %d and %d, want %d", i, x.tag, x.rest[6], model[i])
			}
		})
		if seen += calls; from == 0 {
			return seen
		}
	}
}

// checkShape checks what the fields of a slab promise of each other.
func checkShape(t *rapid.T, s *Slab[item]) {
	made, empty := 0, 0
	for c, chunk := range s.chunks {
		isOpen := s.open[c>>6]>>(c&63)&1 == 1
		if isOpen != (s.heads[c].words != 0) || isOpen && c>>6 < s.low {
			t.Fatalf("chunk %d: open %v, free words %b, low %d", c, isOpen, s.heads[c].words, s.low)
		}
		if chunk == nil {
			continue
		}
		made++
		if s.heads[c].live == 0 {
			if empty++; empty > 1 || s.spare != c+1 {
				t.Fatalf("chunk %d is empty, %d so far, spare %d", c, empty, s.spare)
			}
		}
	}
	if made != s.made || s.Cap() != max(0, made*ChunkItems-1) {
		t.Fatalf("%d chunks made, counted %d, Cap %d", made, s.made, s.Cap())
	}
	if n := len(s.chunks); n > 0 && s.chunks[n-1] == nil {
		t.Fatalf("the last of %d places is empty", n)
	}
}

func TestBurstIsGivenBack(t *testing.T) {
	var s Slab[item]
	if s.Cap() != 0 {
		t.Fatalf("Cap of a new slab = %d", s.Cap())
	}
	s.Free(s.Alloc())
	start := s.Cap()
	for _, upwards := range []bool{true, false} {
		var all []uint32
		for range 100_000 {
			all = append(all, s.Alloc())
		}
		for n := range all {
			if !upwards {
				n = len(all) - 1 - n
			}
			s.Free(all[n])
		}
		if s.Cap() != start || len(s.chunks) != 1 || cap(s.chunks) > 16 || s.chunks[0] == nil {
			t.Fatalf("after a burst: Cap %d, want %d; %d places of %d", s.Cap(), start, len(s.chunks), cap(s.chunks))
		}
	}
}

// An item that stays at the top must not make the slab climb past it.
func TestHolesAreFilled(t *testing.T) {
	var s Slab[item]
	var all []uint32
	for range 4*ChunkItems - 1 { // index 0 is no item
		all = append(all, s.Alloc())
	}
	top := all[len(all)-1]
	for range 3 {
		for _, i := range all[:len(all)-1] {
			s.Free(i)
		}
		if s.Cap() != 2*ChunkItems-1 {
			t.Fatalf("Cap = %d for one item at the top", s.Cap())
		}
		for range len(all) - 1 {
			if i := s.Alloc(); i >= top {
				t.Fatalf("Alloc climbed to %d past %d with room below", i, top)
			}
		}
	}
}

// A full chunk's edge is where one more item comes and goes.
func TestNoAllocationAtTheEdge(t *testing.T) {
	var s Slab[item]
	for s.Len() < 2*ChunkItems-1 { // index 0 is no item
		s.Alloc()
	}
	s.Free(s.Alloc())
	if n := testing.AllocsPerRun(100, func() { s.Free(s.Alloc()) }); n != 0 {
		t.Errorf("%v allocations at a chunk's edge", n)
	}
	var empty Slab[item]
	empty.Free(empty.Alloc())
	if n := testing.AllocsPerRun(100, func() { empty.Free(empty.Alloc()) }); n != 0 {
		t.Errorf("%v allocations in an empty slab", n)
	}
	visit := func(uint32) {}
	if n := testing.AllocsPerRun(100, func() { s.Live(1, 100, visit) }); n != 0 {
		t.Errorf("%v allocations in a walk", n)
	}
}

func TestFreeOfAFreeIndexPanics(t *testing.T) {
	var s Slab[item]
	i, other := s.Alloc(), s.Alloc()
	s.Free(i)
	for _, bad := range []uint32{0, i, other + 1, ChunkItems, 1 << 31} {
		if !panics(func() { s.Free(bad) }) {
			t.Errorf("Free(%d) did not panic", bad)
		}
	}
	if s.Len() != 1 {
		t.Errorf("Len = %d after refused frees, want 1", s.Len())
	}
}

func TestLiveMayFree(t *testing.T) {
	var s Slab[item]
	for range 5 * ChunkItems {
		s.Alloc()
	}
	n := 0
	for from := uint32(1); from != 0; {
		from = s.Live(from, 100, func(i uint32) { s.Free(i); n++ })
	}
	if n != 5*ChunkItems || s.Len() != 0 {
		t.Errorf("freed %d in the walk, %d left", n, s.Len())
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
