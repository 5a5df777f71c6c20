package deploy

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is the user of the server in its cell, as in the container.
const nobody = 65532

// families are the address families a unit may name.
var families = map[string]uint32{
	"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK,
}

// newCell makes the cell that the unit describes.
func newCell(t *testing.T, u unit) *cell {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make a cell: the server was not run under the unit's limits")
	}
	dir := t.TempDir()
	c := &cell{
		Root: dir + "/root", Binary: binary, Etc: dir + "/etc", Run: dir + "/run", State: dir + "/state",
		User: nobody, Files: u.number(t, "LimitNOFILE"), Args: []string{"serve"},
		Env: []string{
			"LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "AUTH_SECRET_FILE=/etc/ticketing/secrets",
			"MAX_CONNECTIONS=8192", "LOOPS=2", "WATCHDOG_USEC=1000000", "NOTIFY_SOCKET=/run/notify",
		},
	}
	for _, d := range []string{c.Root, c.Etc, c.Run, c.State} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.state(t, u)
	c.secrets(t, "hush")
	for _, name := range strings.Fields(u.one(t, "RestrictAddressFamilies")) {
		d, ok := families[name]
		if !ok {
			t.Fatalf("address family %s", name)
		}
		c.Domains = append(c.Domains, d)
	}
	numbers := callNumbers(t)
	for _, name := range allowedCalls(t, u) {
		if n, ok := numbers[name]; ok && !slices.Contains([]string{"socket", "socketpair", "clone", "clone3"}, name) {
			c.Calls = append(c.Calls, n)
		}
	}
	if len(c.Calls) < 100 {
		t.Fatalf("the unit allows %d system calls", len(c.Calls))
	}
	c.tryOut(t)
	return c
}

// tryOut skips the test where even root may not mount, as in most containers.
func (c *cell) tryOut(t *testing.T) {
	t.Helper()
	serve := c.Args
	c.Args = []string{"version"}
	out, err := c.command(t).CombinedOutput()
	c.Args = serve
	switch {
	case errors.Is(err, syscall.EPERM) || strings.Contains(string(out), "cell: mounts: operation not permitted"):
		t.Skipf("mounts are not permitted here: the server was not run under the unit's limits")
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	}
}

// state gives the directory of the state away, as StateDirectory= does.
func (c *cell) state(t *testing.T, u unit) {
	t.Helper()
	if name := u.one(t, "StateDirectory"); "/var/lib/"+name != stateDir {
		t.Fatalf("StateDirectory=%s", name)
	}
	mode, err := strconv.ParseUint(u.one(t, "StateDirectoryMode"), 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(c.State, os.FileMode(mode)), os.Chown(c.State, c.User, c.User)); err != nil {
		t.Fatal(err)
	}
}

// secrets writes the file of secrets as the guide says: root's, and readable by
// the service's group.
func (c *cell) secrets(t *testing.T, text string) {
	t.Helper()
	path := c.Etc + "/secrets"
	if err := os.WriteFile(path, []byte(text+"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 0, c.User); err != nil {
		t.Fatal(err)
	}
}

// command is the server in its cell.
func (c *cell) command(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{cellVariable + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return cmd
}

// The server does all its work under the limits of the unit: it starts, tells
// systemd, authenticates, grants, is scraped, reloads, and drains.
func TestServerInItsCell(t *testing.T) {
	c := newCell(t, readUnit(t))
	m := newManager(t, c.Run)
	n := mustStart(t, c.command(t))
	m.awaits("READY=1")
	m.awaits("WATCHDOG=1")

	in, answer := n.login(t, "hush")
	fmt.Fprint(answer, "A\x00\x1e\x00\x00\x00\x00\x00\x00\x00\x07key\n")
	if reply, err := in.ReadString('\n'); err != nil || reply[0] != 'A' || !strings.HasSuffix(reply, "\x07key\n") {
		t.Errorf("an acquire is answered %q, %v", reply, err)
	}
	metrics := n.get("/metrics")
	for _, name := range []string{"ticketing_ready 1", "process_open_fds", "process_max_fds", "process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(metrics, "\n"+name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if strings.Contains(metrics, "process_start_time_seconds") {
		t.Error("the boot time is seen, which the guide denies")
	}
	n.get("/debug/pprof/profile?seconds=1")

	c.secrets(t, "hush\nhushhush")
	n.signal(syscall.SIGHUP)
	m.awaits("RELOADING=1\nMONOTONIC_USEC=")
	m.awaits("READY=1")
	n.login(t, "hushhush")

	if backlog, allowed := n.backlog(t), somaxconn(t); backlog != allowed {
		t.Errorf("the queue of connections holds %d, the kernel allows %d", backlog, allowed)
	}
	n.isConfined(t)
	n.signal(syscall.SIGTERM)
	m.awaits("STOPPING=1")
	n.exits(0)
	if log := n.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log complains:\n%s", log)
	}
}

// A node of a cluster keeps its data in the unit's state directory: what it
// granted is held after a restart.
func TestClusterInItsCell(t *testing.T) {
	c := newCell(t, readUnit(t))
	newManager(t, c.Run)
	c.Env = append(append(c.Env, clusterOfOne()...), "CLUSTER_DATA_DIR="+stateDir)

	n := mustStart(t, c.command(t))
	n.leads()
	in, answer := n.login(t, "hush")
	fmt.Fprint(answer, "A\x00\xfa\x00\x00\x00\x00\x00\x00\x00\x07key\n")
	if reply, err := in.ReadString('\n'); err != nil || reply[0] != 'A' {
		t.Errorf("an acquire is answered %q, %v", reply, err)
	}
	n.signal(syscall.SIGTERM)
	n.exits(0)

	n = mustStart(t, c.command(t))
	if metrics := n.leads(); !strings.Contains(metrics, "\nticketing_cluster_keys 1\n") {
		t.Error("the key that was granted is not held after a restart")
	}
	n.isConfined(t)
	// Ending is a warning: there is nobody to hand the lead to.
	if log := n.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log complains:\n%s", log)
	}
	n.signal(syscall.SIGTERM)
	n.exits(0)
}

// The cell bites: without a call that the server needs, it does not get far.
func TestCellBites(t *testing.T) {
	for what, change := range map[string]func(c *cell){
		"epoll_ctl":   func(c *cell) { c.forbid(unix.SYS_EPOLL_CTL) },
		"dup3":        func(c *cell) { c.forbid(unix.SYS_DUP3) },
		"timerfd":     func(c *cell) { c.forbid(unix.SYS_TIMERFD_CREATE) },
		"AF_UNIX":     func(c *cell) { c.Domains = []uint32{unix.AF_INET, unix.AF_INET6} },
		"the secrets": func(c *cell) { os.Chown(c.Etc+"/secrets", 0, 0) },
		"files":       func(c *cell) { c.Files = 8192 },
	} {
		c := newCell(t, readUnit(t))
		newManager(t, c.Run)
		change(c)
		if _, err := start(t, c.command(t)); err == nil {
			t.Errorf("the server works without %s", what)
		} else {
			t.Logf("without %s: %.200s", what, explain(err))
		}
	}
}

func (c *cell) forbid(call uint32) {
	c.Calls = slices.DeleteFunc(c.Calls, func(n uint32) bool { return n == call })
}

// isConfined looks at the process from outside.
func (n *node) isConfined(t *testing.T) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Uid:\t65532\t65532\t65532\t65532", "Groups:\t", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(status), "\n"+want) {
			t.Errorf("the process has no %q:\n%s", want, status)
		}
	}
}

// login answers the challenge of a connection that stays until the test ends.
func (n *node) login(t *testing.T, secret string) (*bufio.Reader, net.Conn) {
	t.Helper()
	c, err := net.Dial("tcp", n.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	nonce, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "C SHA-256 ")
	if err != nil || !ok {
		t.Fatalf("challenge %q, %v", line, err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(nonce))
	fmt.Fprintf(c, "%s\nR\x00\x00\x00\x00\x00\x00\x00\x00nothing\n", base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	if reply, err := in.ReadString('\n'); err != nil || reply[0] != 'N' {
		t.Fatalf("with %q: %q, %v", secret, reply, err)
	}
	return in, c
}
