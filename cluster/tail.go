package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// errDamaged is a log in which something is missing that was synced. If what
// changed is the length of a record or a whole sector, etcd's reader takes that
// for the end of the log, or for a last write that was cut short; to go on there
// would be to forget all that is behind it.
var errDamaged = errors.New("damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tail is the log's last file, locked.
type tail struct {
	*fileutil.LockedFile
	end  int64  // of the records that can be read one after another
	rest []byte // what lies behind them
}

func openTail(dir string) (*tail, error) {
	names, err := fileutil.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var last string
	for _, n := range names {
		if strings.HasSuffix(n, ".wal") {
			last = n
		}
	}
	if last == "" {
		return nil, wal.ErrFileNotFound
	}
	f, err := fileutil.TryLockFile(filepath.Join(dir, last), os.O_RDWR, fileutil.PrivateFileMode)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f.File)
	if err != nil {
		f.Close()
		return nil, err
	}
	end := whole(data)
	return &tail{f, int64(end), data[end:]}, nil
}

// readAll takes no more memory than the file has bytes, which are many.
func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// check returns an error if something is missing that was synced. It comes
// before etcd's reader, which overwrites what is behind the end it has found.
func (t *tail) check() error {
	if !synced(t.rest) {
		return nil
	}
	return fmt.Errorf("%w at byte %d of %s, with later writes behind it", errDamaged, t.end, filepath.Base(t.Name()))
}

// cut removes what a crash left of the last write.
func (t *tail) cut() error {
	if len(bytes.Trim(t.rest, "\x00")) == 0 {
		return io.ErrUnexpectedEOF // it is another file that ends too early
	}
	if err := t.Truncate(t.end); err != nil {
		return err
	}
	return fileutil.Fsync(t.File)
}

// whole returns where the records end that can be read one after another.
func whole(data []byte) (end int) {
	var crc uint32
	for {
		r, size := record(data[end:])
		if r == nil {
			return end
		}
		if r.GetType() == wal.CrcType {
			crc = r.GetCrc()
		} else if crc = crc32.Update(crc, castagnoli, r.GetData()); crc != r.GetCrc() {
			return end
		}
		end += size
	}
}

// synced reports whether data, at whose beginning a record is missing, holds
// proof of a write that was synced after that record's. What a crash leaves was
// written since the last sync, any part of it: hard states that do no more than
// move the commit index, which are not synced, and behind them the entries and
// the hard state of one write. Entries, a hard state and again entries are never
// left by a crash.
func synced(data []byte) bool {
	used := len(bytes.TrimRight(data, "\x00"))
	for at := 0; at < used; at += 8 { // records are padded to that
		r, size := record(data[at:])
		entries, state := false, false
		for next := at; r != nil; {
			switch r.GetType() {
			case wal.EntryType:
				if state {
					return true
				}
				entries = true
			case wal.StateType:
				state = entries
			}
			if next > at {
				at = next // not a record by chance: its sum goes on from the one before
			}
			next += size
			crc := r.GetCrc()
			r, size = record(data[next:])
			if r != nil && crc32.Update(crc, castagnoli, r.GetData()) != r.GetCrc() {
				break
			}
		}
	}
	return false
}

// record returns the record at the beginning of data, and how many bytes it
// takes; nil if there is none.
func record(data []byte) (*walpb.Record, int) {
	const frame = 8 // the length, and in the last byte how much is padded
	if len(data) < frame {
		return nil, 0
	}
	field := binary.LittleEndian.Uint64(data)
	size := field &^ (0xff << 56)
	if size == 0 || size > uint64(len(data)-frame) {
		return nil, 0
	}
	var r walpb.Record
	if proto.Unmarshal(data[frame:frame+size], &r) != nil {
		return nil, 0
	}
	if field>>63 == 1 {
		size += field >> 56 & 7
	}
	if size > uint64(len(data)-frame) {
		return nil, 0
	}
	return &r, frame + int(size)
}
