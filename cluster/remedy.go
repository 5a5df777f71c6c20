package cluster

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"ticketing/cluster/state"
)

// startAnew is the way out for a node that has lost what it had promised to
// remember. It must not take part under its old identity: it might vote twice.
const startAnew = "check the disk, then " + replaceNode

const replaceNode = "take the node out with `ticketing cluster remove`, move CLUSTER_DATA_DIR away, " +
	"take the node in again with `ticketing cluster add` and start it with CLUSTER_JOIN=true"

// remedies say what to do about an error of the disk; the first that fits.
var remedies = []struct {
	about  error
	remedy string
}{
	{syscall.ENOSPC, "make room on that file system and start the node again; nothing is lost"},
	{syscall.EDQUOT, "raise the quota of that file system and start the node again; nothing is lost"},
	{fileutil.ErrLocked, "another process uses that directory: stop it, or set another CLUSTER_DATA_DIR"},
	{fs.ErrPermission, "let the user of the server read and write that directory and start the node again"},
	{syscall.EROFS, "mount that file system for writing and start the node again"},
	{state.ErrVersion, "start the program that wrote it; or, to stay with this one, " + replaceNode},
	{syscall.ENOTDIR, "set CLUSTER_DATA_DIR to a directory"},
	{errDamaged, "data on the disk has changed: " + startAnew},
	{wal.ErrCRCMismatch, "data on the disk has changed: " + startAnew},
	{snap.ErrCRCMismatch, "data on the disk has changed: " + startAnew},
	{snap.ErrEmptySnapshot, "data on the disk is gone: " + startAnew},
	{wal.ErrSnapshotNotFound, "data on the disk is gone: " + startAnew},
	{wal.ErrFileNotFound, "data on the disk is gone: " + startAnew},
	{fs.ErrNotExist, "data on the disk is gone: " + startAnew},
	{io.ErrUnexpectedEOF, "data on the disk is gone: " + startAnew},
}

func remedy(err error) string {
	for _, r := range remedies {
		if errors.Is(err, r.about) {
			return r.remedy
		}
	}
	return startAnew
}
