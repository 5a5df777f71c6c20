package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ticketing/shard"
)

// log feeds a machine entries of one proposer.
type log struct {
	testing.TB
	*Machine
	term uint64
}

func newLog(t testing.TB) *log { return &log{t, New(), 1} }

func grant(token uint64, key string) shard.Record {
	return shard.Record{Kind: shard.RecordGrant, Token: token, Lease: 30, Key: []byte(key)}
}

func release(token uint64, key string) shard.Record {
	return shard.Record{Kind: shard.RecordRelease, Token: token, Key: []byte(key)}
}

func entryOf(records ...shard.Record) []byte {
	var turn []byte
	for i := range records {
		turn = shard.AppendRecord(turn, &records[i])
	}
	return EncodeBatch(nil, Header{}, turn)
}

func (l *log) fits(records ...shard.Record) {
	l.Helper()
	if err := l.Apply(l.Index()+1, l.term, entryOf(records...)); err != nil {
		l.Fatal(err)
	}
}

// misfits applies an entry that must change index and term alone.
func (l *log) misfits(says string, records ...shard.Record) {
	l.Helper()
	before := l.Hash()
	err := l.Apply(l.Index()+1, l.term, entryOf(records...))
	if !errors.Is(err, ErrMisfit) || !strings.Contains(err.Error(), says) {
		l.Fatalf("%v, want %q", err, says)
	}
	if l.Hash() != before {
		l.Fatalf("an entry that does not fit changed the state: %v", err)
	}
}

func TestMostKeys(t *testing.T) {
	l := newLog(t)
	var entry []shard.Record
	for n := range uint64(MaxKeys - 1) {
		entry = append(entry, grant(n+1, fmt.Sprint("key ", n)))
	}
	l.fits(entry...)
	l.misfits("one key more than 65536", grant(MaxKeys, "last"), grant(MaxKeys+1, "one more"))
	l.fits(grant(MaxKeys, "last"))
	l.misfits("one key more than 65536", grant(MaxKeys+1, "one more"))
	l.fits(release(MaxKeys, "last"), grant(MaxKeys+1, "one more"))
	m, err := Load(l.Snapshot())
	if err != nil || m.Len() != MaxKeys || m.Hash() != l.Hash() {
		t.Fatalf("%v", err)
	}
}

func TestTokenJumps(t *testing.T) {
	l := newLog(t)
	l.misfits("token 131073 is more than 131072 after the last, 0", grant(maxJump+1, "a"))
	l.fits(grant(maxJump, "a"))
	l.misfits("issued before", grant(maxJump, "b"))
	l.misfits("more than 131072 after", grant(2*maxJump+1, "b"))
	l.fits(grant(2*maxJump, "b"))
	if l.gaps.missing != maxMissing-2 {
		t.Fatalf("%d tokens are missing", l.gaps.missing)
	}
	l.misfits("leaves out more than 262144 tokens", grant(2*maxJump+4, "c"))
	l.fits(grant(2*maxJump+3, "c"))
	l.misfits("leaves out", grant(2*maxJump+5, "d"))
	l.fits(grant(2*maxJump+4, "d")) // leaves none out
	l.fits(grant(1, "e"), grant(2*maxJump+6, "f"))
	if _, err := Load(l.Snapshot()); err != nil {
		t.Fatal(err)
	}
	l.term++
	l.fits()
	l.misfits("issued before", grant(2, "g"))
	l.misfits("more than 131072", grant(3*maxJump+7, "g"))
	l.fits(grant(3*maxJump+6, "g"))
	l.misfits("held by 393222", grant(3*maxJump+7, "g"))
}

// Every token is accepted once, wherever in a gap it is.
func TestGaps(t *testing.T) {
	l := newLog(t)
	l.fits(grant(10, "10")) // 1 to 9 are missing
	for _, token := range []uint64{5, 1, 9, 3, 2, 8, 6, 7, 4} {
		l.misfits("was issued before", grant(10, "again"))
		l.fits(grant(token, fmt.Sprint(token)))
		l.misfits("was issued before", grant(token, "again"))
	}
	if len(l.gaps.spans) != 0 || l.gaps.missing != 0 || l.Counter() != 10 {
		t.Fatalf("%+v, counter %d", l.gaps, l.Counter())
	}
}

// A term that begins with an entry that does not fit has begun: what the former
// one left out is lost.
func TestGapsOfAFormerTerm(t *testing.T) {
	l := newLog(t)
	l.fits(grant(10, "a"))
	l.term++
	if err := l.Apply(l.Index()+1, l.term, entryOf(release(9, "a"))); !errors.Is(err, ErrMisfit) {
		t.Fatal(err)
	}
	l.misfits("was issued before", grant(9, "b"))
	l.fits(grant(11, "b"))
}

func TestEndOfTokens(t *testing.T) {
	m := New()
	m.counter = 1<<64 - 2
	l := &log{t, m, 0}
	l.fits(grant(1<<64-1, "last"))
	l.misfits("issued before", grant(1<<64-1, "again"))
	if l.Counter() != 1<<64-1 {
		t.Fatal(l.Counter())
	}
	if m, err := Load(l.Snapshot()); err != nil || m.Hash() != l.Hash() {
		t.Fatal(err)
	}
}

// Whoever does not hold ends nothing.
func TestEnds(t *testing.T) {
	l := newLog(t)
	l.fits(grant(1, "a"), grant(2, "b"))
	for _, kind := range []byte{shard.RecordRelease, shard.RecordExpire} {
		l.misfits("held by 1", shard.Record{Kind: kind, Token: 2, Key: []byte("a")})
		l.misfits("held by 0", shard.Record{Kind: kind, Token: 1, Key: []byte("c")})
		l.misfits("held by 0", release(1, "a"), shard.Record{Kind: kind, Token: 1, Key: []byte("a")})
	}
	l.misfits("held by 1", release(2, "b"), grant(3, "b"), grant(4, "c"), release(4, "c"), grant(6, "b2"), grant(5, "a"))
	l.fits(release(1, "a"), grant(3, "a"), shard.Record{Kind: shard.RecordExpire, Token: 3, Key: []byte("a")})
}

func TestMembers(t *testing.T) {
	l := newLog(t)
	set := func(m Member) error { return l.Apply(l.Index()+1, 1, EncodeMember(nil, Header{}, m)) }
	for id := range uint64(MaxMembers) {
		if err := set(Member{ID: id + 1, Name: fmt.Sprint("n", id)}); err != nil {
			t.Fatal(err)
		}
	}
	before := l.Hash()
	if err := set(Member{ID: 99, Name: "n99"}); !errors.Is(err, ErrMisfit) || l.Hash() != before {
		t.Error(err)
	}
	if err := set(Member{ID: 1, Name: "n5"}); !errors.Is(err, ErrMisfit) || l.Hash() != before {
		t.Error(err)
	}
	if err := set(Member{ID: 1, Name: "n0", Client: "elsewhere:7400"}); err != nil || l.Hash() == before {
		t.Error(err)
	}
	if _, err := Load(l.Snapshot()); err != nil {
		t.Error(err)
	}
	for _, bad := range []Member{
		{Name: "x"}, {ID: 9}, {ID: 9, Name: strings.Repeat("x", 256)}, {ID: 9, Name: "x", Peer: "a b"},
		{ID: 9, Name: "x", Client: "a\nb"}, {ID: 9, Name: "x", Instance: strings.Repeat("x", 256)},
	} {
		if bad.Validate() == nil {
			t.Errorf("%.99v is valid", bad)
		}
	}
}

// An entry that cannot be read is the same to everybody; one of another version
// is not, and so nothing may be made of it.
func TestEntriesOfOtherKinds(t *testing.T) {
	good := entryOf(grant(1, "a"))
	member := EncodeMember(nil, Header{}, Member{ID: 1, Name: "n1"})
	removal := EncodeRemoval(nil, Header{}, 1)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"other version":        {append([]byte{2}, good[1:]...), ErrVersion},
		"version 0":            {append([]byte{0}, good[1:]...), ErrVersion},
		"other version, short": {[]byte{2}, ErrVersion},
		"other kind":           {append([]byte{1, 'z'}, good[2:]...), ErrMisfit},
		"cut header":           {good[:headerSize-1], ErrMisfit},
		"cut record":           {good[:len(good)-1], ErrMisfit},
		"more behind":          {append(good[:len(good):len(good)], 0), ErrMisfit},
		"cut member":           {member[:len(member)-1], ErrMisfit},
		"more behind a member": {append(member[:len(member):len(member)], 0), ErrMisfit},
		"cut removal":          {removal[:len(removal)-1], ErrMisfit},
		"unknown removal":      {removal, ErrMisfit},
		"no change":            {member[:headerSize], ErrMisfit},
		"other change":         {append(append([]byte{}, member[:headerSize]...), '*', 0, 0, 0, 0, 0, 0, 0, 1), ErrMisfit},
		"no records":           {good[:headerSize], nil},
	} {
		m := New()
		before := m.Hash()
		err := m.Apply(1, 1, c.data)
		if !errors.Is(err, c.want) || m.Hash() != before {
			t.Errorf("%s: %v", name, err)
		}
		if moved := m.Index() == 1 && m.Term() == 1; moved != (c.want != ErrVersion) {
			t.Errorf("%s: at index %d of term %d", name, m.Index(), m.Term())
		}
		if c.want == ErrVersion && !strings.Contains(err.Error(), fmt.Sprintf("version %d, this program knows version 1", c.data[0])) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeader(t *testing.T) {
	want := Header{Version: 1, Kind: KindBatch, Proposer: 0x0102030405060708, Boot: 1<<64 - 1, Seq: 7}
	data := EncodeBatch([]byte("x"), want)
	if got, err := DecodeHeader(data[1:]); err != nil || got != want || data[0] != 'x' {
		t.Errorf("%+v, %v", got, err)
	}
	want.Kind = KindMember
	for _, data := range [][]byte{EncodeMember(nil, want, Member{ID: 1, Name: "n"}), EncodeRemoval(nil, want, 1)} {
		if got, err := DecodeHeader(data); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := DecodeHeader(nil); !errors.Is(err, ErrMisfit) {
		t.Error(err)
	}
}
