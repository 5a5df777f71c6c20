//go:build debug

package slab

import "testing"

func TestDebugBites(t *testing.T) {
	var s Slab[item]
	i := s.Alloc()
	p := s.At(i)
	s.Free(i)
	if p.tag != 0xdbdbdbdbdbdbdbdb || p.rest[6] != p.tag {
		t.Errorf("a freed item reads %x", *p)
	}
	if !panics(func() { s.At(i) }) {
		t.Error("At of a freed index did not panic")
	}
	if !panics(func() { new(Slab[[2]struct{ s string }]).Alloc() }) {
		t.Error("a slab of items with pointers did not panic")
	}
}
