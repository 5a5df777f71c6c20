package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskKind is what a node's data lies on.
type diskKind uint8

const (
	// plain is a directory of the machine's own disk.
	plain diskKind = iota
	// memory is a small file system in memory, which can be filled.
	memory
	// image is a small file system in a file, which can be filled and can fail:
	// the kernel then drops what was not synced, as at a loss of power.
	image
)

// diskSize is room for a few files of a log and some snapshots.
const diskSize = "192M"

// bestDisk is the kind that can do most of those that this machine has. It is
// tried in a directory of the run.
func bestDisk(dir string) diskKind {
	n := &node{name: "trial", dir: dir, disk: image}
	defer os.Remove(n.imageFile())
	if err := n.prepare(); err != nil {
		return memory
	}
	unix.Unmount(n.diskDir(), 0)
	os.Remove(n.diskDir())
	return image
}

// diskDir is where the node keeps its data.
func (n *node) diskDir() string { return filepath.Join(n.dir, n.name) }

// imageFile is the file in which a disk of kind image lies.
func (n *node) imageFile() string { return filepath.Join(n.dir, n.name+".img") }

// prepare makes the node's disk.
func (n *node) prepare() error {
	if err := os.MkdirAll(n.diskDir(), 0o755); err != nil {
		return err
	}
	switch n.disk {
	case memory:
		if err := unix.Mount("tmpfs", n.diskDir(), "tmpfs", 0, "size="+diskSize); err != nil {
			return fmt.Errorf("a disk for %s: %w", n.name, err)
		}
	case image:
		for _, step := range [][]string{
			{"truncate", "--size", diskSize, n.imageFile()},
			{"mkfs.ext4", "-q", "-F", n.imageFile()},
		} {
			if err := feed("", step[0], step[1:]...); err != nil {
				return err
			}
		}
		return n.mountImage()
	}
	return nil
}

func (n *node) mountImage() error {
	return feed("", "mount", "-o", "loop,noatime", n.imageFile(), n.diskDir())
}

// cutPower makes the disk fail from now on, with the loss of all that was not
// synced.
func (n *node) cutPower() error {
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	d, err := os.Open(n.diskDir())
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.IoctlSetPointerInt(int(d.Fd()), shutdown, noLogFlush)
}

// repair gives the node the disk as it was before the failure. The process must
// have ended.
func (n *node) repair() error {
	if err := unix.Unmount(n.diskDir(), 0); err != nil {
		return fmt.Errorf("the disk of %s: %w", n.name, err)
	}
	return n.mountImage()
}

// fill takes all of the room on the node's disk; the returned function gives it
// back.
func (n *node) fill() (end func() error, err error) {
	path := filepath.Join(n.diskDir(), "filler")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block := make([]byte, 1<<16)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return nil, err
		}
	}
	return func() error { return os.Remove(path) }, f.Sync()
}

// wipe empties the node's disk.
func (n *node) wipe() error {
	entries, err := os.ReadDir(n.diskDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(n.diskDir(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}
