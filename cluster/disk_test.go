package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
)

func entriesOf(from, to, term uint64) (all []*raftpb.Entry) {
	for i := from; i <= to; i++ {
		all = append(all, &raftpb.Entry{Index: new(i), Term: new(term), Data: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	return all
}

// filled makes a disk with a snapshot at 3 and entries up to 10.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	d, err := createDisk(dir, []byte("me"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := &raftpb.Snapshot{Data: []byte("state"), Metadata: &raftpb.SnapshotMetadata{
		Index: new(uint64(3)), Term: new(uint64(1)), ConfState: &raftpb.ConfState{Voters: []uint64{1}}}}
	if err := d.saveSnapshot(s); err != nil {
		t.Fatal(err)
	}
	if err := d.save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(3))}, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.save(&raftpb.HardState{Term: new(uint64(2)), Vote: new(uint64(1)), Commit: new(uint64(9))},
		entriesOf(4, 10, 2)); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDiskIsReadAsItWasWritten(t *testing.T) {
	d, k, err := openDisk(filled(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if string(k.metadata) != "me" || string(k.snapshot.GetData()) != "state" || k.snapshot.GetMetadata().GetIndex() != 3 {
		t.Errorf("metadata %q, snapshot %v", k.metadata, k.snapshot)
	}
	if k.hard.GetCommit() != 9 || k.hard.GetTerm() != 2 || k.hard.GetVote() != 1 {
		t.Errorf("hard state %v", k.hard)
	}
	if len(k.entries) != 7 || k.entries[6].GetIndex() != 10 {
		t.Errorf("%d entries, want 4 to 10", len(k.entries))
	}
}

// spoil changes the bytes of a file around the last place where mark stands.
func spoil(t *testing.T, file string, mark []byte, change func([]byte, int) []byte) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, mark)
	if at < 0 {
		t.Fatalf("%s does not hold %q", file, mark)
	}
	if err := os.WriteFile(file, change(data, at), 0o600); err != nil {
		t.Fatal(err)
	}
}

func only(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v %v", pattern, files, err)
	}
	return files[0]
}

func TestTornLastRecordIsMended(t *testing.T) {
	dir := filled(t)
	spoil(t, only(t, dir+"/wal/*.wal"), bytes.Repeat([]byte{10}, 50), func(b []byte, at int) []byte { return b[:at+10] })
	d, k, err := openDisk(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if n := len(k.entries); n != 6 {
		t.Errorf("%d entries after the last was cut short, want 6", n)
	}
	if err := d.save(nil, entriesOf(10, 10, 3)); err != nil {
		t.Errorf("the mended log takes nothing: %v", err)
	}
}

// kindsOfRecords returns where the records of a log begin, by their types.
func kindsOfRecords(data []byte) (at map[int64][]int) {
	at = map[int64][]int{}
	for off := 0; ; {
		r, size := record(data[off:])
		if r == nil {
			return at
		}
		at[r.GetType()] = append(at[r.GetType()], off)
		off += size
	}
}

// Of a write that a crash cut short any part may be on the disk: it is the last
// one, and nobody relied on it. The same hole with a later write behind it is
// damage, also where etcd's reader takes it for the end of the log.
func TestHoleInTheLogIsDamageIfSomethingWasWrittenLater(t *testing.T) {
	for name, spoil := range map[string]func(b []byte, at int){
		"length grown":   func(b []byte, at int) { b[at+2] ^= 0x10 },
		"length huge":    func(b []byte, at int) { b[at+5] ^= 0x10 },
		"length zero":    func(b []byte, at int) { clear(b[at : at+8]) },
		"sector of zero": func(b []byte, at int) { clear(b[at/512*512 : at/512*512+512]) },
	} {
		for _, later := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written later %v", name, later), func(t *testing.T) {
				dir := t.TempDir()
				d, err := createDisk(dir, []byte("me"), slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				last := uint64(0)
				write := func(n, commit uint64) {
					t.Helper()
					var entries []*raftpb.Entry
					if n > 0 {
						entries = entriesOf(last+1, last+n, 2)
					}
					last += n
					hard := &raftpb.HardState{Term: new(uint64(2)), Vote: new(uint64(1)), Commit: new(commit)}
					if err := d.save(hard, entries); err != nil {
						t.Fatal(err)
					}
				}
				write(7, 0)
				write(20, 7) // the one that is spoiled
				if later {
					write(0, 27) // not synced
					write(1, 27)
				}
				if err := d.close(); err != nil {
					t.Fatal(err)
				}
				file := only(t, dir+"/wal/*.wal")
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				spoil(data, kindsOfRecords(data)[wal.EntryType][7+10])
				data = data[:len(bytes.TrimRight(data, "\x00"))+8<<10] // the rest takes time, and is as empty
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				d, k, err := openDisk(dir, slog.New(slog.DiscardHandler))
				if err == nil {
					defer d.close()
				}
				switch {
				case later && (err == nil || !strings.Contains(err.Error(), "cluster remove")):
					t.Errorf("err %v; entries are missing that were synced", err)
				case !later && err != nil:
					t.Errorf("a write cut short: %v", err)
				case !later:
					if n := len(k.entries); n < 7 || n > 17 {
						t.Errorf("%d entries, want those before the last write, and some of it", n)
					}
					if err := d.save(nil, entriesOf(uint64(len(k.entries))+1, 40, 3)); err != nil {
						t.Errorf("the mended log takes nothing: %v", err)
					}
				}
			})
		}
	}
}

// Mending needs no room: a full disk is how a write comes to be cut short.
func TestMendingLeavesNothingBehind(t *testing.T) {
	dir := filled(t)
	spoil(t, only(t, dir+"/wal/*.wal"), bytes.Repeat([]byte{10}, 50), func(b []byte, at int) []byte { return b[:at+10] })
	d, _, err := openDisk(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	d.close()
	files, _ := filepath.Glob(dir + "/wal/*.wal*")
	if len(files) != 1 {
		t.Errorf("the log is %v, want one file", files)
	}
}

func TestDamageStopsTheNodeAndSaysTheWayOut(t *testing.T) {
	flip := func(b []byte, at int) []byte { b[at+5] ^= 1; return b }
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"a bit in the log": {func(t *testing.T, dir string) {
			spoil(t, only(t, dir+"/wal/*.wal"), bytes.Repeat([]byte{7}, 50), flip)
		}, "cluster remove"},
		"a bit in the snapshot": {func(t *testing.T, dir string) {
			spoil(t, only(t, dir+"/snap/*.snap"), []byte("state"), func(b []byte, at int) []byte { b[at] ^= 1; return b })
		}, "cluster remove"},
		"the snapshot is gone": {func(t *testing.T, dir string) {
			if err := os.Remove(only(t, dir+"/snap/*.snap")); err != nil {
				t.Fatal(err)
			}
		}, "cluster remove"},
		"another process": {func(t *testing.T, dir string) {
			d, _, err := openDisk(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.close() })
		}, "another process"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			c.spoil(t, dir)
			d, _, err := openDisk(dir, slog.New(slog.DiscardHandler))
			if err == nil {
				d.close()
				t.Fatal("the damage was not noticed")
			}
			var f *Fault
			if !errors.As(err, &f) || f.Dir != dir || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want a Fault with the directory and %q", err, c.want)
			}
		})
	}
}

// Of several snapshots and log files only those stay that a restart needs.
func TestDropKeepsWhatARestartNeeds(t *testing.T) {
	dir := filled(t)
	d, _, err := openDisk(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(10)
	data := make([]byte, walSegment/2)
	for range 4 { // each fills half a file of the log
		last++
		e := &raftpb.Entry{Index: new(last), Term: new(uint64(2)), Data: data}
		if err := d.save(&raftpb.HardState{Term: new(uint64(2)), Commit: new(last)}, []*raftpb.Entry{e}); err != nil {
			t.Fatal(err)
		}
		s := &raftpb.Snapshot{Data: []byte("state"), Metadata: &raftpb.SnapshotMetadata{
			Index: new(last), Term: new(uint64(2)), ConfState: &raftpb.ConfState{Voters: []uint64{1}}}}
		if err := d.saveSnapshot(s); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := filepath.Glob(dir + "/wal/*.wal")
	if err := d.drop(last); err != nil {
		t.Fatal(err)
	}
	after, _ := filepath.Glob(dir + "/wal/*.wal")
	snaps, _ := filepath.Glob(dir + "/snap/*.snap")
	if len(after) >= len(before) || len(snaps) != keptSnaps {
		t.Errorf("%d of %d log files and %d snapshots are left", len(after), len(before), len(snaps))
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	d, k, err := openDisk(dir, slog.New(slog.DiscardHandler))
	if err != nil || !hasDisk(dir) {
		t.Fatalf("after drop: %v", err)
	}
	defer d.close()
	if k.snapshot.GetMetadata().GetIndex() != last || len(k.entries) != 0 {
		t.Errorf("snapshot at %d and %d entries, want %d and none", k.snapshot.GetMetadata().GetIndex(), len(k.entries), last)
	}
}
