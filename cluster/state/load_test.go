package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
)

// sample is a machine with something of everything.
func sample(t testing.TB) *Machine {
	l := newLog(t)
	l.fits(grant(9, "a"), grant(12, "b"), grant(3, "cc"), grant(20, "d"))
	for id, name := range []string{"n1", "n2", "n3"} {
		member := Member{ID: uint64(10 + id), Name: name, Peer: "127.0.1.1:7500", Client: "127.0.1.1:7400", Instance: "0123"}
		if err := l.Apply(l.Index()+1, 1, EncodeMember(nil, Header{}, member)); err != nil {
			t.Fatal(err)
		}
	}
	return l.Machine
}

// sealed appends the right checksum.
func sealed(body []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// No byte of a snapshot can change or be missing.
func TestDamagedSnapshots(t *testing.T) {
	good := sample(t).Snapshot()
	if m, err := Load(good); err != nil || !bytes.Equal(m.Snapshot(), good) {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := Load(good[:i]); !errors.Is(err, ErrSnapshot) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
		damaged := bytes.Clone(good)
		damaged[i] ^= 4
		if _, err := Load(damaged); err == nil {
			t.Errorf("byte %d is changed, and nobody minds", i)
		}
		if _, err := Load(sealed(good[:i])); err == nil && i != len(good)-4 {
			t.Errorf("cut to %d bytes and sealed, and nobody minds", i)
		}
	}
	if _, err := Load(append(good, 0)); !errors.Is(err, ErrSnapshot) {
		t.Error(err)
	}
	if _, err := Load(sealed(append(good[:len(good)-4:len(good)-4], 0))); !errors.Is(err, ErrSnapshot) {
		t.Error(err)
	}
}

func TestSnapshotOfAnotherVersion(t *testing.T) {
	data := sample(t).Snapshot()
	data[7] = 2
	for _, data := range [][]byte{data, data[:8], sealed(data[:len(data)-4])} {
		_, err := Load(data)
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "snapshot of version 2, this program knows version 1") {
			t.Error(err)
		}
	}
}

// What breaks an invariant is not loaded, however right its checksum is.
func TestSnapshotsThatCannotBe(t *testing.T) {
	for says, spoil := range map[string]func(m *Machine){
		"held by token 20, the last is 19":   func(m *Machine) { m.counter = 19; m.gaps.clear() },
		"held by token 0":                    func(m *Machine) { m.keys["a"] = held{0, 30} },
		"a token holds two keys":             func(m *Machine) { m.keys["e"] = held{9, 30} },
		"token 4, which was not issued":      func(m *Machine) { m.keys["e"] = held{4, 30} },
		"with a lease of 0 s":                func(m *Machine) { m.keys["a"] = held{9, 0} },
		"with a lease of 251 s":              func(m *Machine) { m.keys["a"] = held{9, 251} },
		`key ""`:                             func(m *Machine) { m.keys[""] = held{9, 30} },
		strings.Repeat("k", 129):             func(m *Machine) { m.keys[strings.Repeat("k", 129)] = held{9, 30} },
		"gaps are not in order":              func(m *Machine) { m.gaps.spans[1].first = m.gaps.spans[0].last },
		"not a range below the counter":      func(m *Machine) { m.gaps.spans[0] = span{2, 1} },
		"a gap is not a range below":         func(m *Machine) { m.gaps.spans[0].first = 0 },
		"gap is not a range below the count": func(m *Machine) { m.gaps.spans[len(m.gaps.spans)-1].last = 20 },
		"too many tokens are missing": func(m *Machine) {
			m.gaps.spans, m.counter = []span{{21, 20 + maxMissing/2}, {30 + maxMissing/2, 30 + maxMissing}}, 1<<30
		},
		"members are not in order": func(m *Machine) { m.members[0].ID = 12 },
		"has the name":             func(m *Machine) { m.members[0].Name = "n3" },
		"no member":                func(m *Machine) { m.members[0].Name = "" },
		"one more than the 16": func(m *Machine) {
			for n := range byte(14) {
				m.members = append(m.members, Member{ID: 100 + uint64(n), Name: string('a' + n)})
			}
		},
	} {
		m := sample(t)
		spoil(m)
		if _, err := Load(m.Snapshot()); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	m := sample(t)
	m.gaps.spans, m.counter = []span{{21, 20 + maxMissing}}, 1<<30
	if _, err := Load(m.Snapshot()); err != nil {
		t.Errorf("as many missing as may be: %v", err)
	}
	if _, err := Load(unsorted(t)); err == nil || !strings.Contains(err.Error(), `key "a" after "b"`) {
		t.Errorf("keys that are not in order: %v", err)
	}
}

// unsorted is a snapshot whose first two keys are exchanged.
func unsorted(t testing.TB) []byte {
	data := sample(t).Snapshot()
	a, b := bytes.Index(data, []byte("\x1e\x01a")), bytes.Index(data, []byte("\x1e\x01b"))
	data[a+2], data[b+2] = 'b', 'a'
	return sealed(data[:len(data)-4])
}

// Counts that cannot be are found out before memory is taken for them.
func TestSnapshotCountsCostNothing(t *testing.T) {
	good := New().Snapshot()
	for _, at := range []int{32, 36, 40} { // gaps, members, keys
		data := bytes.Clone(good[:len(good)-4])
		copy(data[at:], "\xff\xff\xff\xff")
		data = sealed(data)
		allocated := testing.AllocsPerRun(10, func() {
			if _, err := Load(data); !errors.Is(err, ErrSnapshot) {
				t.Error(err)
			}
		})
		if allocated > 40 {
			t.Errorf("count at %d: %v allocations", at, allocated)
		}
	}
}

// FuzzLoad looks whether what is loaded is a state: its own snapshot is the
// same, and entries can be applied to it.
func FuzzLoad(f *testing.F) {
	for _, data := range [][]byte{New().Snapshot(), sample(f).Snapshot(), unsorted(f), {}, []byte(snapshotMagic)} {
		f.Add(data[:max(0, len(data)-4)])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		Load(body)
		data := sealed(body)
		m, err := Load(data)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		if again := m.Snapshot(); !bytes.Equal(again, data) {
			t.Fatalf("the snapshot of what was loaded is another one:\n%q\n%q", again, data)
		}
		if m.index < 1<<64-1 && m.counter < 1<<64-1 {
			before := m.Len()
			err := m.Apply(m.index+1, m.term, entryOf(grant(m.counter+1, "a key of the test")))
			if _, _, held := m.Get([]byte("a key of the test")); err == nil && (!held || m.Len() != before+1) {
				t.Fatalf("%v, %d keys after %d", err, m.Len(), before)
			}
		}
	})
}

// FuzzApply looks whether an entry, whatever it is, is applied whole or not at
// all, and leaves a state that can be loaded.
func FuzzApply(f *testing.F) {
	for _, data := range [][]byte{
		entryOf(), entryOf(grant(21, "e"), release(9, "a"), grant(4, "a")), entryOf(grant(21, "e"), release(9, "e")),
		EncodeMember(nil, Header{}, Member{ID: 4, Name: "n4"}), EncodeRemoval(nil, Header{}, 10), {}, {1}, {2},
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := sample(t)
		before := m.Snapshot()
		index, hash := m.Index(), m.Hash()
		err := m.Apply(index+1, 1, data)
		if err != nil {
			if m.Hash() != hash {
				t.Fatalf("the state changed: %v", err)
			}
			switch {
			case errors.Is(err, ErrMisfit) && m.Index() == index+1:
				m.index = index
			case !errors.Is(err, ErrVersion) || m.Index() != index:
				t.Fatalf("at index %d after %d: %v", m.Index(), index, err)
			}
			if !bytes.Equal(m.Snapshot(), before) {
				t.Fatalf("more than the index changed: %v", err)
			}
		}
		loaded, err := Load(m.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Hash() != m.Hash() {
			t.Fatal("the hash went astray")
		}
	})
}
