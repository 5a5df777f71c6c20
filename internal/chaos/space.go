package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideVariable carries the Job to the process inside the namespaces.
const insideVariable = "CHAOS_JOB"

// A Job is what the process inside does.
type Job struct {
	Run      *Config   `json:",omitempty"`
	Failover *Failover `json:",omitempty"`
}

// ErrFound: a run found violations.
var ErrFound = errors.New("violations were found")

// exitFound is how the process inside tells its parent of ErrFound.
const exitFound = 3

// Enter does the job in namespaces of its own, with this program as the process
// inside: its main must call [Inside] first. Nothing started there outlives the
// call. What the job reports goes to out.
func Enter(ctx context.Context, job Job, out io.Writer) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), insideVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = isolated()
	// The signal at the parent's death is tied to the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitFound {
		return ErrFound
	}
	return err
}

// isolated asks for the namespaces. Who is not root becomes root in a user
// namespace, where the kernel permits that.
func isolated() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// Missing returns what this machine lacks for a run, or nil.
func Missing() error {
	for _, tool := range []string{"nft", "ss"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed", tool)
		}
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = isolated()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("namespaces cannot be made here: %w", err)
	}
	return nil
}

// Inside does the job and ends the program when it is the one that [Enter]
// started; otherwise it returns.
func Inside() {
	text, ok := os.LookupEnv(insideVariable)
	if !ok {
		return
	}
	os.Unsetenv(insideVariable)
	switch err := inside(text); {
	case errors.Is(err, ErrFound):
		os.Exit(exitFound)
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func inside(text string) error {
	var job Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	if err := settle(); err != nil {
		return err
	}
	ctx, stop := notified()
	defer stop()
	if job.Failover != nil {
		return job.Failover.measure(ctx, os.Stdout)
	}
	return job.Run.run(ctx, os.Stdout)
}

// settle makes the namespaces usable: mounts stay in here, and the loopback
// interface is up.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	return nil
}
