package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// cellVariable tells the test binary to be the first process of a cell.
const cellVariable = "TICKETING_TEST_CELL"

// stateDir is where StateDirectory= is.
const stateDir = "/var/lib/ticketing"

// cell is what systemd would make of the unit around the server, as far as a
// process can do it to itself: a root directory of its own with nothing in it
// but the binary, its secrets, /proc of itself and four devices, read-only; a
// directory for its state; no capability; limits; and a filter of system calls that kills.
//
// It has a mount namespace of its own, from which nothing gets out, and it
// removes nothing: it only mounts.
type cell struct {
	Root    string   // an empty directory
	Binary  string   // seen as /ticketing
	Etc     string   // directory, seen as /etc/ticketing, readable by group User
	Run     string   // directory, seen as /run
	State   string   // directory of User, seen as /var/lib/ticketing
	User    int      // and group
	Files   int      // limit
	Calls   []uint32 // system calls that are allowed, by number
	Domains []uint32 // of sockets that are allowed
	Args    []string
	Env     []string
}

// enterCell makes the cell and becomes the server in it.
func enterCell(text string) error {
	var c cell
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	runtime.LockOSThread() // privileges belong to a thread, and the one that calls exec is left
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mounts", c.mount}, {"limits", c.limit}, {"privileges", c.drop}, {"filter", c.filter},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("cell: %s: %w", step.what, err)
		}
	}
	return fmt.Errorf("cell: exec: %w", syscall.Exec("/ticketing", append([]string{"/ticketing"}, c.Args...), c.Env))
}

// mount makes the root directory: ProtectSystem=, ProtectProc=, ProcSubset=,
// PrivateDevices=, PrivateTmp=.
func (c *cell) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("cell", c.Root, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	bound := map[string]string{
		"/ticketing": c.Binary, "/etc/ticketing": c.Etc, "/run": c.Run, stateDir: c.State,
		"/dev/null": "/dev/null", "/dev/zero": "/dev/zero", "/dev/random": "/dev/random", "/dev/urandom": "/dev/urandom",
	}
	for inside, outside := range bound {
		if err := bind(outside, filepath.Join(c.Root, inside)); err != nil {
			return fmt.Errorf("%s: %w", inside, err)
		}
	}
	proc := filepath.Join(c.Root, "proc")
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible,subset=pid"); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := unix.Mount("", c.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
		return err
	}
	if err := unix.Chroot(c.Root); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// bind makes outside, a file or a directory, seen as inside.
func bind(outside, inside string) error {
	info, err := os.Stat(outside)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(inside, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(inside), 0o755); err == nil {
		err = os.WriteFile(inside, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return unix.Mount(outside, inside, "", unix.MS_BIND, "")
}

// limit is LimitNOFILE= and LimitCORE=.
func (c *cell) limit() error {
	files := syscall.Rlimit{Cur: uint64(c.Files), Max: uint64(c.Files)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// drop is CapabilityBoundingSet=, User=, NoNewPrivileges= and
// MemoryDenyWriteExecute=.
func (c *cell) drop() error {
	for n := uintptr(0); n <= unix.CAP_LAST_CAP; n++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil && err != unix.EINVAL {
			return err
		}
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(c.User, c.User, c.User); err != nil {
		return err
	}
	if err := syscall.Setresuid(c.User, c.User, c.User); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setMDWE, refuseExecGain = 65, 1 // Linux 6.3; an older one has the filter of calls alone
	if err := unix.Prctl(setMDWE, refuseExecGain, 0, 0, 0); err != nil && err != unix.EINVAL {
		return err
	}
	return nil
}
