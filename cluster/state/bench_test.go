package state

import (
	"encoding/binary"
	"testing"

	"ticketing/shard"
)

// pairs is an entry of 64 records: each of 32 keys is granted and released.
type pairs struct {
	keys  [32][24]byte
	turn  []byte
	entry []byte
}

func (p *pairs) encode(first uint64) []byte {
	p.turn = p.turn[:0]
	for i := range p.keys {
		key := p.keys[i][:]
		copy(key, "orders/customer/")
		binary.BigEndian.PutUint64(key[16:], first+uint64(i))
		r := shard.Record{Kind: shard.RecordGrant, Token: first + uint64(i), Lease: 30, Key: key}
		p.turn = shard.AppendRecord(p.turn, &r)
		r.Kind = shard.RecordRelease
		p.turn = shard.AppendRecord(p.turn, &r)
	}
	p.entry = EncodeBatch(p.entry[:0], Header{}, p.turn)
	return p.entry
}

// BenchmarkApply is an entry of 64 records, with 10,000 other keys held.
func BenchmarkApply(b *testing.B) {
	m := New()
	for n := range uint64(10_000) {
		key := binary.BigEndian.AppendUint64([]byte("held/"), n)
		if err := m.Apply(n+1, 1, entryOf(grant(n+1, string(key)))); err != nil {
			b.Fatal(err)
		}
	}
	var p pairs
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Apply(m.Index()+1, 1, p.encode(m.Counter()+1)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot and BenchmarkLoad are of as many keys as there may be.
func BenchmarkSnapshot(b *testing.B) {
	m := full(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Snapshot()
	}
}

func BenchmarkLoad(b *testing.B) {
	data := full(b).Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeld(b *testing.B) {
	m := full(b)
	for b.Loop() {
		for range m.Held {
		}
	}
}

func full(b *testing.B) *Machine {
	m := New()
	for n := range uint64(MaxKeys) {
		key := binary.BigEndian.AppendUint64([]byte("orders/customer/"), n*0x9e3779b97f4a7c15)
		if err := m.Apply(n+1, 1, entryOf(grant(n+1, string(key)))); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

// A grant costs the memory of its key, nothing else costs any.
func TestApplyAllocates(t *testing.T) {
	m, p := New(), &pairs{}
	apply := func() {
		if err := m.Apply(m.Index()+1, 1, p.encode(m.Counter()+1)); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	if n := testing.AllocsPerRun(200, apply); n > 32 {
		t.Errorf("%v allocations for 32 grants and 32 releases", n)
	}
}
