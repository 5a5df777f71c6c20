package deploy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing/internal/transcript"
)

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

// node is a running server.
type node struct {
	t             testing.TB
	cmd           *exec.Cmd
	client, admin string // addresses it printed
	log           *transcript.Buffer
	ended         chan struct{}
}

// start runs cmd, which must become a server, and waits for its addresses. It is
// killed when the test is over.
func start(t testing.TB, cmd *exec.Cmd) (*node, error) {
	t.Helper()
	n := &node{t: t, cmd: cmd, log: &transcript.Buffer{}, ended: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, n.log
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	go func() { cmd.Wait(); close(n.ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-n.ended
		out.Close()
		if t.Failed() {
			t.Logf("log of %v:\n%s", cmd.Args, n.log)
		}
	})
	out.SetReadDeadline(time.Now().Add(patience))
	in := bufio.NewScanner(out)
	for (n.client == "" || n.admin == "") && in.Scan() {
		switch what, addr, _ := strings.Cut(in.Text(), " "); what {
		case "client":
			n.client = addr
		case "admin":
			n.admin = addr
		}
	}
	if n.admin == "" {
		cmd.Process.Kill()
		<-n.ended
		return nil, &exec.ExitError{ProcessState: cmd.ProcessState, Stderr: []byte(n.log.String())}
	}
	return n, nil
}

// serve is a command that runs a server of its own on free ports.
func serve(env ...string) *exec.Cmd {
	cmd := exec.Command(binary, "serve")
	cmd.Env = append([]string{"LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0"}, env...)
	return cmd
}

// clusterOfOne is the settings of a node that is a cluster by itself; its data
// directory is not among them.
func clusterOfOne() []string {
	// 127.0.0.0/8 is large: that two tests meet is not to be expected.
	host := fmt.Sprintf("127.%d.%d.1", 1+rand.IntN(250), rand.IntN(250))
	return []string{"CLUSTER_NODE_ID=n1", "CLUSTER_PEERS=n1=" + host + ":7402", "CLUSTER_ADVERTISE_CLIENT=" + host + ":7400"}
}

// leads waits until the node leads its cluster, and returns its metrics then.
func (n *node) leads() string {
	n.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if metrics := n.get("/metrics"); strings.Contains(metrics, "\nticketing_cluster_leads 1\n") {
			return metrics
		}
	}
	n.t.Fatal("does not come to lead its cluster")
	return ""
}

func mustStart(t testing.TB, cmd *exec.Cmd) *node {
	t.Helper()
	n, err := start(t, cmd)
	if err != nil {
		t.Fatal(explain(err))
	}
	return n
}

// explain shows what an ended process had to say.
func explain(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ProcessState.String() + ": " + string(exit.Stderr)
	}
	return err.Error()
}

// get asks the admin endpoint.
func (n *node) get(path string) string {
	n.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + n.admin + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		n.t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(body)
}

// exits waits for the end of the process.
func (n *node) exits(code int) {
	n.t.Helper()
	select {
	case <-n.ended:
		if got := n.cmd.ProcessState; got.ExitCode() != code {
			n.t.Fatalf("ended with %v, want exit code %d", got, code)
		}
	case <-time.After(patience):
		n.t.Fatal("does not end")
	}
}

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// manager is a socket as systemd gives one; it has what is told.
type manager struct {
	t    testing.TB
	path string
	told chan string
}

// newManager listens in dir, where anybody may tell it something.
func newManager(t testing.TB, dir string) *manager {
	t.Helper()
	m := &manager{t: t, path: dir + "/notify", told: make(chan string, 1000)}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := os.Chmod(m.path, 0o777); err != nil {
		t.Fatal(err)
	}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			m.told <- string(buffer[:n])
		}
	}()
	return m
}

// awaits waits until something is told that begins with text.
func (m *manager) awaits(text string) {
	m.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got := <-m.told:
			if strings.HasPrefix(got, text) {
				return
			}
		case <-timeout:
			m.t.Fatalf("systemd is not told %q", text)
		}
	}
}
