package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const (
	walSegment  = 32 << 20 // bytes a file of the log is preallocated with
	keptSnaps   = 2        // snapshot files kept: the newest, and the one before
	privateDirs = 0o700
)

func init() { wal.SegmentSizeBytes = walSegment }

// disk is what a node keeps: a write-ahead log of what raft must not forget, and
// snapshots of the state. One goroutine uses it. After an error it must not be
// used again: what is on the disk is then only known to who reads it anew.
type disk struct {
	dir string
	lg  *zap.Logger
	log *slog.Logger

	wal   *wal.WAL
	snaps *snap.Snapshotter
}

// kept is what was found on the disk.
type kept struct {
	metadata []byte
	snapshot *raftpb.Snapshot // empty if there is none yet
	hard     *raftpb.HardState
	entries  []*raftpb.Entry // behind the snapshot
}

func (d *disk) walDir() string  { return filepath.Join(d.dir, "wal") }
func (d *disk) snapDir() string { return filepath.Join(d.dir, "snap") }

// hasDisk reports whether a node has kept anything in dir.
func hasDisk(dir string) bool { return wal.Exist((&disk{dir: dir}).walDir()) }

// createDisk makes an empty log in dir, which holds none.
func createDisk(dir string, metadata []byte, log *slog.Logger) (*disk, error) {
	d := &disk{dir: dir, log: log, lg: newZap(log)}
	d.snaps = snap.New(d.lg, d.snapDir())
	err := os.MkdirAll(d.snapDir(), privateDirs)
	if err == nil {
		d.wal, err = wal.Create(d.lg, d.walDir(), metadata)
	}
	if err != nil {
		return nil, d.fault("create the log", err)
	}
	return d, nil
}

// openDisk reads what a node has kept in dir. A log whose last record was cut
// short, as a crash leaves it, is mended; any other damage is an error.
func openDisk(dir string, log *slog.Logger) (*disk, *kept, error) {
	d := &disk{dir: dir, log: log, lg: newZap(log)}
	d.snaps = snap.New(d.lg, d.snapDir())
	if err := d.atTail((*tail).check); err != nil {
		return nil, nil, d.fault("read the log", err)
	}
	k, err := d.read()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		log.Warn("the last record of the log is incomplete and is dropped; it was never confirmed to anybody",
			"dir", d.walDir())
		if err := d.atTail((*tail).cut); err != nil {
			return nil, nil, d.fault("mend the log", err)
		}
		k, err = d.read()
	}
	if err != nil {
		return nil, nil, err
	}
	return d, k, nil
}

func (d *disk) atTail(do func(*tail) error) error {
	t, err := openTail(d.walDir())
	if err != nil {
		return err
	}
	defer t.Close()
	return do(t)
}

func (d *disk) read() (k *kept, err error) {
	defer func() { // a record with a good checksum and bad content panics
		if p := recover(); p != nil {
			k, err = nil, d.fault("read the log", fmt.Errorf("%v", p))
		}
	}()
	known, err := wal.ValidSnapshotEntries(d.lg, d.walDir())
	if err != nil {
		return nil, d.fault("read the log", err)
	}
	k = &kept{}
	if k.snapshot, err = d.newest(known); err != nil {
		return nil, err
	}
	m := k.snapshot.GetMetadata()
	at := &walpb.Snapshot{Index: new(m.GetIndex()), Term: new(m.GetTerm()), ConfState: m.GetConfState()}
	if d.wal, err = wal.Open(d.lg, d.walDir(), at); err == nil {
		k.metadata, k.hard, k.entries, err = d.wal.ReadAll()
		if err != nil {
			d.wal.Close()
		}
	}
	if err != nil {
		return nil, d.fault("read the log", err)
	}
	return k, nil
}

// newest returns the newest snapshot the log knows of. Files it does not know
// are of a crash between the two, and are worth nothing.
func (d *disk) newest(known []*walpb.Snapshot) (*raftpb.Snapshot, error) {
	for _, s := range slices.Backward(known) {
		if s.GetIndex() == 0 {
			break
		}
		file := filepath.Join(d.snapDir(), snapName(s.GetTerm(), s.GetIndex()))
		read, err := snap.Read(d.lg, file)
		if err != nil {
			return nil, d.fault("read the snapshot "+file, err)
		}
		return read, nil
	}
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{}}, nil
}

func snapName(term, index uint64) string { return fmt.Sprintf("%016x-%016x.snap", term, index) }

// save writes to the log, and waits until it is on the disk if raft must be
// able to rely on it.
func (d *disk) save(hard *raftpb.HardState, entries []*raftpb.Entry) error {
	if err := d.wal.Save(hard, entries); err != nil {
		return d.fault("write the log", err)
	}
	return nil
}

// saveSnapshot writes a snapshot, and then to the log that there is one.
func (d *disk) saveSnapshot(s *raftpb.Snapshot) error {
	err := d.snaps.SaveSnap(s)
	if err == nil {
		err = d.noteSnapshot(s)
	}
	if err != nil {
		return d.fault("write a snapshot", err)
	}
	return nil
}

func (d *disk) noteSnapshot(s *raftpb.Snapshot) error {
	m := s.GetMetadata()
	return d.wal.SaveSnapshot(&walpb.Snapshot{
		Index: new(m.GetIndex()), Term: new(m.GetTerm()), ConfState: m.GetConfState(),
	})
}

// drop removes what no restart needs: log files that end before index, and old
// snapshots.
func (d *disk) drop(index uint64) error {
	if err := d.wal.ReleaseLockTo(index); err != nil {
		return d.fault("release the log", err)
	}
	names, err := fileutil.ReadDir(d.walDir())
	if err == nil {
		err = d.dropUnlocked(names)
	}
	if err == nil {
		names, err = fileutil.ReadDir(d.snapDir())
	}
	if err != nil {
		return d.fault("list old files", err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".snap") })
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-keptSnaps)] {
		if err := os.Remove(filepath.Join(d.snapDir(), name)); err != nil {
			return d.fault("remove an old snapshot", err)
		}
	}
	return nil
}

// dropUnlocked removes log files in their order up to the first that is in use.
func (d *disk) dropUnlocked(names []string) error {
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, ".wal") {
			continue
		}
		file := filepath.Join(d.walDir(), name)
		lock, err := fileutil.TryLockFile(file, os.O_WRONLY, fileutil.PrivateFileMode)
		if errors.Is(err, fileutil.ErrLocked) {
			return nil
		}
		if err != nil {
			return err
		}
		err = os.Remove(file)
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) close() error { return d.wal.Close() }

// Fault is an error of a node's disk. The node has stopped, and the others go
// on without it.
type Fault struct {
	Doing  string // what failed
	Dir    string // CLUSTER_DATA_DIR
	Remedy string // what to do
	Err    error
}

func (f *Fault) Error() string {
	return fmt.Sprintf("could not %s in %s: %v; this node has stopped, the others go on: %s", f.Doing, f.Dir, f.Err, f.Remedy)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// fault makes an error say what failed, where, and what to do.
func (d *disk) fault(doing string, err error) error {
	var f *Fault
	if errors.As(err, &f) {
		return err
	}
	return &Fault{Doing: doing, Dir: d.dir, Remedy: remedy(err), Err: err}
}
