package shard

import (
	"bytes"
	"strings"
	"testing"
)

func TestRecordBytes(t *testing.T) {
	for _, c := range []struct {
		record Record
		bytes  string
	}{
		{Record{RecordGrant, 0x0102030405060708, 30, []byte("hello")}, "g\x01\x02\x03\x04\x05\x06\x07\x08\x1e\x05hello"},
		{Record{RecordRelease, 1, 0, []byte("k")}, "r\x00\x00\x00\x00\x00\x00\x00\x01\x01k"},
		{Record{RecordExpire, 1<<64 - 1, 0, []byte("k")}, "x\xff\xff\xff\xff\xff\xff\xff\xff\x01k"},
	} {
		got := AppendRecord([]byte("before"), &c.record)
		if string(got) != "before"+c.bytes {
			t.Errorf("%+v: %q, want %q", c.record, got[6:], c.bytes)
		}
		r, n, ok := ParseRecord([]byte(c.bytes + "behind"))
		if !ok || n != len(c.bytes) || r.Kind != c.record.Kind || r.Token != c.record.Token || r.Lease != c.record.Lease || !bytes.Equal(r.Key, c.record.Key) {
			t.Errorf("%q: %+v, %d bytes, ok %v", c.bytes, r, n, ok)
		}
		for cut := range c.bytes {
			if _, _, ok := ParseRecord([]byte(c.bytes[:cut])); ok {
				t.Errorf("%q, cut to %d bytes, is taken for whole", c.bytes, cut)
			}
		}
	}
}

// Each field has a first and a last legal value.
func TestRecordRanges(t *testing.T) {
	one := strings.Repeat("\x00", 7) + "\x01"
	zero := strings.Repeat("\x00", 8)
	long := strings.Repeat("k", 128)
	for _, c := range []struct {
		bytes string
		ok    bool
	}{
		{"g" + one + "\x01\x01k", true},
		{"g" + one + "\xfa\x01k", true},
		{"g" + one + "\x00\x01k", false},
		{"g" + one + "\xfb\x01k", false},
		{"g" + one + "\x01\x00", false},
		{"g" + one + "\x01\x80" + long, true},
		{"g" + one + "\x01\x81" + long + "k", false},
		{"g" + zero + "\x01\x01k", false},
		{"r" + zero + "\x01k", false},
		{"r" + one + "\x80" + long, true},
		{"r" + one + "\x81" + long + "k", false},
		{"x" + one + "\x01k", true},
		{"X" + one + "\x01k", false},
		{"\x00" + one + "\x01k", false},
		{"", false},
	} {
		if _, n, ok := ParseRecord([]byte(c.bytes)); ok != c.ok || ok && n != len(c.bytes) {
			t.Errorf("%q: ok %v, %d bytes", c.bytes, ok, n)
		}
	}
}
