package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// insideTest says that a test runs in a mount namespace of its own.
const insideTest = "CLUSTER_INSIDE_TEST"

// withMounts runs the test again where it may mount what it likes, and reports
// whether this is there.
func withMounts(t *testing.T) bool {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if os.Getenv(insideTest) != "" {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if err := (&exec.Cmd{Path: "/bin/true", SysProcAttr: attr}).Run(); err != nil {
		t.Skipf("namespaces cannot be made here: %v", err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideTest+"=1")
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// fill takes all room in dir, and returns the file that has it.
func fill(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return filler
}

// A full disk shows when the log needs its next file, for room is made for that
// ahead, or when a snapshot is written. Then the node stops and says what to do,
// the others go on, and with room it comes back and has lost nothing.
func TestFullDiskStopsOneNode(t *testing.T) {
	if !withMounts(t) {
		return
	}
	wal.SegmentSizeBytes = 64 << 10
	for _, c := range []struct {
		at      string
		every   uint64 // entries between snapshots
		leading bool   // whose disk it is
		doing   string
	}{
		{"the next file of the log", 1 << 30, true, "could not write the log"},
		{"the next file of a follower's log", 1 << 30, false, "could not write the log"},
		{"a snapshot", 50, false, "could not write a snapshot"},
	} {
		t.Run(c.at, func(t *testing.T) {
			r := newRig(t, 3, func(cfg *Config) {
				cfg.SnapshotEvery = c.every
				if err := syscall.Mount("tmpfs", cfg.Dir, "tmpfs", 0, "size=1M"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { syscall.Unmount(cfg.Dir, syscall.MNT_DETACH) })
			})
			leader := r.leader()
			leader.grant(t, "a")
			victim := leader
			if !c.leading {
				victim = r.other(leader)
			}
			filler := fill(t, victim.cfg.Dir)
			n := stopByWork(t, victim, leader)
			name := victim.cfg.Node
			err := r.stop(name)
			for _, part := range []string{c.doing, victim.cfg.Dir, "make room", "the others go on"} {
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), part) {
					t.Fatalf("it ended with %v, want %q in it", err, part)
				}
			}
			r.leader().grant(t, "b")
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			r.start(name)
			if s := r.same(); s.Keys < 2 || !c.leading && s.Keys != n+2 {
				t.Errorf("%d keys after %d grants", s.Keys, n+2)
			}
		})
	}
}

// stopByWork has the leader grant keys until the victim has stopped, and returns
// how many.
func stopByWork(t *testing.T, victim, leader *running) (n int) {
	t.Helper()
	for ; n < 20000; n++ {
		select {
		case <-victim.stopped:
			return n
		case <-time.After(200 * time.Microsecond): // so that not all are one entry
		}
		leader.submit(fmt.Sprintf("key-%0110d", n))
	}
	t.Fatalf("it takes %d entries on a full disk", n)
	return n
}
