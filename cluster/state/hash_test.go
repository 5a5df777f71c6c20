package state

import (
	"fmt"
	"testing"

	"ticketing/shard"
)

// Whatever differs between two states differs in the hash.
func TestHashTellsApart(t *testing.T) {
	states := map[string]func(l *log){
		"nothing":        func(*log) {},
		"a key":          func(l *log) { l.fits(grant(1, "a")) },
		"another key":    func(l *log) { l.fits(grant(1, "b")) },
		"a longer key":   func(l *log) { l.fits(grant(1, "a\x00")) },
		"a longer lease": func(l *log) { l.fits(shard.Record{Kind: shard.RecordGrant, Token: 1, Lease: 31, Key: []byte("a")}) },
		"a gap":          func(l *log) { l.fits(grant(2, "a")) },
		"no gap":         func(l *log) { l.fits(grant(1, "b"), release(1, "b"), grant(2, "a")) },
		"a larger gap":   func(l *log) { l.fits(grant(3, "a")) },
		"another gap":    func(l *log) { l.fits(grant(1, "b"), release(1, "b"), grant(3, "a")) },
		"a longer gap":   func(l *log) { l.fits(grant(9, "a")) },
		"a shorter gap":  func(l *log) { l.fits(grant(9, "a"), grant(8, "b"), release(8, "b")) },
		"only tokens":    func(l *log) { l.fits(grant(1, "a"), release(1, "a")) },
		"two":            func(l *log) { l.fits(grant(1, "a"), grant(2, "b")) },
		"two, exchanged": func(l *log) { l.fits(grant(2, "a"), grant(1, "b")) },
		"a member":       func(l *log) { l.Apply(1, 1, EncodeMember(nil, Header{}, Member{ID: 1, Name: "n"})) },
		"its address":    func(l *log) { l.Apply(1, 1, EncodeMember(nil, Header{}, Member{ID: 1, Name: "n", Peer: "p"})) },
		"its other":      func(l *log) { l.Apply(1, 1, EncodeMember(nil, Header{}, Member{ID: 1, Name: "n", Client: "p"})) },
	}
	seen := map[uint64]string{}
	for name, make := range states {
		l := newLog(t)
		make(l)
		if other, ok := seen[l.Hash()]; ok {
			t.Errorf("%q and %q have the same hash", name, other)
		}
		seen[l.Hash()] = name
	}
}

// The way to a state does not matter, nor the process it is made in.
func TestHashOfEqualStates(t *testing.T) {
	one, two := newLog(t), newLog(t)
	one.fits(grant(1, "a"), grant(2, "b"), grant(3, "c"), release(2, "b"))
	two.fits(grant(3, "c"))
	two.fits(grant(2, "b"))
	two.fits(release(2, "b"), grant(1, "a"))
	const want = 0x546a9325dd0a6b76 // an older program on another machine must agree
	if one.Hash() != want || two.Hash() != want {
		t.Errorf("%#x and %#x, want %#x", one.Hash(), two.Hash(), uint64(want))
	}
}

func TestCheckpoints(t *testing.T) {
	l := newLog(t)
	want := map[uint64]uint64{}
	for token := range uint64(70 * checkpointEvery) {
		if l.Checkpoint() != l.Index()/checkpointEvery*checkpointEvery {
			t.Fatalf("at index %d the checkpoint is %d", l.Index(), l.Checkpoint())
		}
		if token%128 == 0 {
			l.fits(grant(token/128+1, fmt.Sprint(token)))
		} else if err := l.Apply(l.Index()+1, 1, nil); err != nil {
			t.Fatal(err)
		}
		want[l.Index()] = l.Hash()
	}
	known := 0
	for index := range 80 * uint64(checkpointEvery) {
		hash, ok := l.HashAt(index)
		if !ok {
			continue
		}
		known++
		if hash != want[index] || index%checkpointEvery != 0 || index <= 6*checkpointEvery {
			t.Errorf("index %d: %#x, want %#x", index, hash, want[index])
		}
	}
	if known != keptCheckpoints {
		t.Errorf("%d hashes are known", known)
	}
	fresh, err := Load(l.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if hash, ok := fresh.HashAt(70 * checkpointEvery); !ok || hash != l.Hash() || fresh.Checkpoint() != l.Index() {
		t.Errorf("of a snapshot at a checkpoint: %#x, %v", hash, ok)
	}
	if _, ok := fresh.HashAt(69 * checkpointEvery); ok {
		t.Error("a hash from before the snapshot")
	}
	(&log{t, fresh, 1}).fits(grant(l.Counter()+1, "b"))
	again, err := Load(fresh.Snapshot())
	if err != nil || again.Checkpoint() != 0 {
		t.Errorf("%v, checkpoint %d", err, again.Checkpoint())
	}
}
