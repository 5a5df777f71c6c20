package shard

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"ticketing/lease"

	"github.com/cespare/xxhash/v2"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(entry{}); n != 64 {
		t.Errorf("an entry is %d B, not 64", n)
	}
	if n := unsafe.Sizeof(waiter{}); n != 56 {
		t.Errorf("a waiter is %d B, not 56", n)
	}
	for name, n := range map[string]uintptr{
		"Admission": unsafe.Sizeof(Admission{}), "Lane": unsafe.Sizeof(Lane{}), "Tokens": unsafe.Sizeof(Tokens{}),
	} {
		if n != 128 {
			t.Errorf("%s is %d B, not two cache lines", name, n)
		}
	}
}

// TestNoAllocations holds that in a steady state nothing allocates.
func TestNoAllocations(t *testing.T) {
	s := newShard(100, 1000, 10_000)
	now := start
	a := &Attempt{Key: []byte("some/key/of/twenty-four/"), WaitSeconds: 1, LeaseSeconds: 1}
	long := &Attempt{Key: []byte(strings.Repeat("k", 128)), WaitSeconds: 1, LeaseSeconds: 1}
	a.Hash, long.Hash = xxhash.Sum64(a.Key), xxhash.Sum64(long.Key)
	for name, step := range map[string]func(){
		"acquire and release": func() {
			_, token := s.Acquire(now, a)
			s.Release(now, a.Key, a.Hash, token)
		},
		"long key": func() {
			_, token := s.Acquire(now, long)
			s.Release(now, long.Key, long.Hash, token)
		},
		"park and hand over": func() {
			_, token := s.Acquire(now, a)
			for range 10 {
				s.Acquire(now, a)
			}
			for s.Release(now, a.Key, a.Hash, token) && len(s.Events()) > 0 {
				token = s.Events()[0].Token
				s.ClearEvents()
			}
		},
		"park and leave": func() {
			_, token := s.Acquire(now, a)
			for range 10 {
				s.Acquire(now, a)
			}
			s.Leave(now, a.Session)
			s.Release(now, a.Key, a.Hash, token)
		},
		"time out, expire and sweep": func() {
			for range 10 {
				s.Acquire(now, a)
			}
			for s.Next() != lease.Never {
				now = s.Next()
				s.Advance(now)
				s.ClearEvents()
			}
		},
	} {
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory measures what a held lock and a waiter cost, and that everything
// is given back when the last is gone.
func TestMemory(t *testing.T) {
	const keys, waiters = 100_000, 50_000
	s := newShard(maxQueue, 1<<20, 1<<20)
	before := heap()
	var key [24]byte
	a := Attempt{Key: key[:], WaitSeconds: 10, LeaseSeconds: 200}
	tokens := make([]uint64, keys)
	before += keys * 8
	name := func(n int) {
		binary.BigEndian.PutUint64(key[16:], uint64(n))
		a.Hash = xxhash.Sum64(key[:])
	}
	for n := range keys {
		name(n)
		_, tokens[n] = s.Acquire(start, &a)
	}
	held := heap()
	t.Logf("%.1f B a held lock", float64(held-before)/keys)
	if each := (held - before) / keys; each > 100 {
		t.Errorf("%d B a held lock", each)
	}
	for n := range waiters {
		name(n % 100)
		a.Session.Slot = uint32(n % 1000)
		if outcome, _ := s.Acquire(start, &a); outcome != Parked {
			t.Fatal(outcome)
		}
	}
	parked := heap()
	t.Logf("%.1f B a waiter", float64(parked-held)/waiters)
	if each := (parked - held) / waiters; each > 90 {
		t.Errorf("%d B a waiter", each)
	}
	end := start.Add(10*time.Second + tick)
	s.Advance(end)
	if n := len(s.Events()); n != waiters {
		t.Errorf("%d of %d waiters timed out", n, waiters)
	}
	s.ClearEvents()
	for n := range keys {
		name(n)
		if !s.Release(end, key[:], a.Hash, tokens[n]) {
			t.Fatalf("key %d is not held", n)
		}
		if n == keys/2 {
			checkState(t, s)
		}
	}
	checkEmpty(t, s)
	after := heap()
	runtime.KeepAlive(tokens)
	if after > before+300_000 {
		t.Errorf("%d B are left of %d keys and %d waiters", after-before, keys, waiters)
	}
	runtime.KeepAlive(s)
}

// TestCollidingKeys keeps keys apart whose hashes are equal, or equal in the
// half that counts, through growth, shrinking and removals in any order.
func TestCollidingKeys(t *testing.T) {
	s := newShard(10, 1<<20, 100)
	hashes := []func(n int) uint64{
		func(int) uint64 { return 42 },                                   // equal
		func(n int) uint64 { return uint64(n)<<32 | 43 },                 // equal low half
		func(n int) uint64 { return uint64(unspread(^uint32(n % 3))) },   // wrap around
		func(n int) uint64 { return xxhash.Sum64String(fmt.Sprint(n)) },  // as they come
		func(n int) uint64 { return uint64(unspread(uint32(n) * 1e6)) },  // in order
		func(n int) uint64 { return xxhash.Sum64String(fmt.Sprint(-n)) }, // as they come
	}
	type held struct {
		key   []byte
		hash  uint64
		token uint64
	}
	var all []held
	acquire := func(kind, n int) {
		key := fmt.Appendf(nil, "%d of kind %d, %s", n, kind, strings.Repeat("x", n%90))
		a := Attempt{Key: key, Hash: hashes[kind](n), LeaseSeconds: 100}
		outcome, token := s.Acquire(start, &a)
		if outcome != Granted {
			t.Fatalf("%s: %v", key, outcome)
		}
		all = append(all, held{key, a.Hash, token})
	}
	for n := range 20_000 {
		if n < 300 {
			acquire(0, n)
			acquire(1, n)
			acquire(2, n)
		}
		for kind := 3; kind < len(hashes); kind++ {
			acquire(kind, n)
		}
		if n%4999 == 0 {
			checkState(t, s)
		}
	}
	for n, h := range all {
		if outcome, _ := s.Acquire(start, &Attempt{Key: h.key, Hash: h.hash, LeaseSeconds: 1}); outcome != TimedOut {
			t.Fatalf("%d: %s: %v", n, h.key, outcome)
		}
		if s.Release(start, h.key, h.hash, h.token+1) {
			t.Fatalf("%s released by another's token", h.key)
		}
	}
	for left := len(all); left > 0; left-- {
		at := left * 7919 % len(all)
		h := all[at]
		all[at] = all[len(all)-1]
		all = all[:len(all)-1]
		if !s.Release(start, h.key, h.hash, h.token) {
			t.Fatalf("%s is lost", h.key)
		}
		if left%9973 == 0 {
			checkState(t, s)
		}
	}
	checkEmpty(t, s)
}
