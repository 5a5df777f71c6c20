package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// disks runs a test on each kind of disk that can be filled.
func disks(t *testing.T, test func(t *testing.T, n *node)) {
	for name, kind := range map[string]diskKind{"memory": memory, "image": image} {
		n := &node{name: name, dir: t.TempDir(), disk: kind}
		if kind == image && bestDisk(n.dir) != image {
			t.Log("no disk can be made of a file here")
			continue
		}
		if err := n.prepare(); err != nil {
			t.Fatal(err)
		}
		test(t, n)
		if err := syscall.Unmount(n.diskDir(), 0); err != nil {
			t.Error(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	if !apart(t) {
		return
	}
	disks(t, func(t *testing.T, n *node) {
		write := func() error { return os.WriteFile(filepath.Join(n.diskDir(), "x"), make([]byte, 8192), 0o600) }
		if err := write(); err != nil {
			t.Fatal(err)
		}
		os.Remove(filepath.Join(n.diskDir(), "x"))
		end, err := n.fill()
		if err != nil {
			t.Fatal(err)
		}
		if err := write(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("writing to the full disk: %v", err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := write(); err != nil {
			t.Errorf("with room again: %v", err)
		}
		if err := n.wipe(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(n.diskDir()); err != nil || len(left) > 0 {
			t.Errorf("wiped, it has %v, %v", left, err)
		}
	})
}

// A disk that fails keeps what was synced, and nothing else.
func TestPowerCut(t *testing.T) {
	if !apart(t) {
		return
	}
	n := &node{name: "n1", dir: t.TempDir(), disk: image}
	if bestDisk(n.dir) != image {
		t.Skip("no disk can be made of a file here")
	}
	if err := n.prepare(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(n.diskDir(), 0) })
	path := filepath.Join(n.diskDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) error {
		_, err := f.WriteString(text)
		return err
	}
	if err := errors.Join(write("synced"), f.Sync()); err != nil {
		t.Fatal(err)
	}
	if err := write(" and not synced"); err != nil {
		t.Fatal(err)
	}
	if err := n.cutPower(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(write("x"), f.Sync()); !errors.Is(err, syscall.EIO) {
		t.Errorf("writing to the failed disk: %v", err)
	}
	f.Close()
	if err := n.repair(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "synced" {
		t.Errorf("kept is %q, %v", got, err)
	}
}
