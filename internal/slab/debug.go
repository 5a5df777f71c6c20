package slab

import (
	"fmt"
	"reflect"
	"unsafe"
)

// mustBeLive panics if an index is not handed out.
func (s *Slab[T]) mustBeLive(i uint32) {
	c := int(i >> chunkShift)
	if i == 0 || c >= len(s.heads) || s.heads[c].used[i&chunkMask>>6]&(1<<(i&63)) == 0 {
		panic(fmt.Sprintf("slab: index %d is not in use", i))
	}
}

// scribble fills an item with bytes that no code means, so that whoever still
// reads it after its life has ended sees nonsense at once.
func scribble[T any](item *T) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(item)), unsafe.Sizeof(*item))
	for i := range b {
		b[i] = 0xdb
	}
}

func mustHoldNoPointers[T any]() {
	if t := reflect.TypeFor[T](); holdsPointers(t) {
		panic(fmt.Sprintf("slab: %v holds pointers", t))
	}
}

func holdsPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && holdsPointers(t.Elem())
	case reflect.Struct:
		for f := range t.NumField() {
			if holdsPointers(t.Field(f).Type) {
				return true
			}
		}
		return false
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer,
		reflect.Slice, reflect.String, reflect.UnsafePointer:
		return true
	default:
		return false
	}
}
