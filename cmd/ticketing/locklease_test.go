package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shortLease is long enough for a command to get ready in it, however slow this
// machine is. The tests begin everything that is to wait for it, and then wait.
const shortLease = "--lease=5s"

// When the lease ends the command does, and so does every process of its group:
// exits waits for all that have its stdout.
func TestLeaseEndsTheCommand(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := start(t, command(t, nil))
	const long, short, none = "5m0s", "100ms", "0s"
	cases := []struct {
		name    string
		grace   string
		command []string
		out     string // behind "ready\n"
	}{
		{"it does as told", long, []string{"probe", "signals", "1", "0"}, "SIGTERM\n"},
		{"it exits in its own way", long, []string{"sh", "-c", `trap "echo done; exit 3" TERM; echo ready; while :; do sleep 60; done`}, "done\n"},
		{"it is stopped", long, []string{"sh", "-c", `echo ready; kill -STOP $$; sleep 60`}, ""},
		{"it ignores SIGTERM", short, []string{"probe", "stubborn"}, ""},
		{"it has no grace time", none, []string{"probe", "stubborn"}, ""},
		{"it ignores SIGTERM and its child does not", short, []string{"sh", "-c", `trap "" TERM; probe signals 1 0 & wait; sleep 60`}, "SIGTERM\n"},
		{"its child takes longer", long, []string{"probe", "forks", "finishes"}, "finished\n"},
		{"its child ignores SIGTERM", short, []string{"probe", "forks", "stubborn"}, ""},
	}
	var all []*running
	for _, c := range cases {
		args := []string{"lock", c.name, shortLease, "--grace=" + c.grace, "--"}
		args[1] = strings.ReplaceAll(c.name, " ", "-")
		r := launch(t, clientCommand(s, nil, slices.Concat(args, c.command)...))
		r.says(0, "ready\n")
		all = append(all, r)
	}
	for i, c := range cases {
		stdout, stderr := all[i].exits(exitLeaseEnded)
		if !strings.HasPrefix(stdout, "ready\n"+c.out) {
			t.Errorf("%s: stdout %q", c.name, stdout)
		}
		want := " has ended and CMD still runs: it gets SIGTERM, and SIGKILL after " + c.grace + "\n"
		if !strings.Contains(stderr, want) || strings.Count(stderr, "ticketing: ") != 1 {
			t.Errorf("%s: stderr %q", c.name, stderr)
		}
	}
}

// When ticketing lock is stopped over the end of its lease, the command ends as
// soon as it goes on. When it is killed, its command is too, and the key is
// free when the lease ends.
func TestStoppedAndKilledLock(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := start(t, command(t, nil))
	stopped := lockUp(t, s, []string{shortLease, "--grace=5m"}, "probe", "stays")
	killed := launch(t, clientCommand(s, nil, "lock", "killed", shortLease, "--", "probe", "stubborn"))
	killed.says(0, "ready\n")
	stopped.signal(syscall.SIGSTOP)
	killed.signal(syscall.SIGKILL)
	killed.exits(-1)
	for _, key := range []string{"k", "killed"} {
		if err := clientCommand(s, nil, "acquire", key, "--wait=60s").Run(); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	s.awaitMetric("ticketing_expiries_total 2")
	s.awaitMetric(`ticketing_releases_total{result="released"} 0`)
	select {
	case <-stopped.ended:
		t.Fatal("it was not stopped")
	default:
	}
	stopped.signal(syscall.SIGCONT)
	stopped.exits(exitLeaseEnded)
}

// A process group is looked at as a whole, but for its leader, and processes
// that have ended do not count.
func TestOthersInAGroup(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	start := func(group int) int {
		p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{
			Files: []*os.File{in, null, null}, Sys: &syscall.SysProcAttr{Setpgid: true, Pgid: group},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Pid
	}
	leader := start(0)
	if othersIn(leader) {
		t.Error("the leader counts")
	}
	other := start(leader)
	if !othersIn(leader) {
		t.Error("the other one does not count")
	}
	out.Close() // both end, and nobody has waited for them
	for deadline := time.Now().Add(patience); othersIn(leader); {
		if time.Now().After(deadline) {
			t.Fatal("one that has ended counts")
		}
	}
	for _, pid := range []int{leader, other} {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
	}
}
