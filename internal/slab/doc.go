// Package slab keeps items of one kind by index instead of by pointer, so
// that a million of them cost the garbage collector nothing to look at.
//
// It owns the memory of the items: chunks of [ChunkItems], made when needed and
// given back when their last item is freed. It knows nothing of what the items
// mean, it starts no goroutine and takes no lock: a slab belongs to one
// goroutine.
//
// The timer wheel (package lease) keeps its timers in one, a shard (package
// shard) its entries, waiters and long keys.
//
// Built with the tag "debug", the items of a freed index are scribbled over,
// [Slab.At] of a free index panics, and so does a slab whose items hold
// pointers.
package slab
