package soak

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "ticketing/internal/admin" // of the server, as is all it imports: when it changes, the result is not taken from the cache

	"ticketing/internal/transcript"
)

// server is the process under load.
type server struct {
	binary, dir string     // paths
	authority   *authority // nil: no TLS
	cmd         *exec.Cmd
	addr, admin string
	log         transcript.Buffer
	ctx         context.Context // done when the load ends
	exited      chan struct{}
	loaded      atomic.Bool  // the verified load has its connections
	shortages   atomic.Int64 // of descriptors, so far
	shortUntil  atomic.Int64 // when there were descriptors again, UnixNano
}

// build builds the program.
func build(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "ticketing")
	args := []string{"build", "-o", binary}
	if os.Getenv("SOAK_RACE") != "" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "ticketing/cmd/ticketing")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the server: %v\n%s", err, out)
	}
	return binary
}

// file is the path of one of the server's files, or of its clients'.
func (s *server) file(name string) string { return filepath.Join(s.dir, name) }

// start starts a server with two loops.
func start(t *testing.T, binary string, connections int, encrypted bool) *server {
	t.Helper()
	s := &server{binary: binary, dir: t.TempDir(), exited: make(chan struct{})}
	err := os.WriteFile(s.file("client"), []byte(secret+"\n"), 0o600)
	if err == nil && encrypted {
		if s.authority, err = newAuthority(); err == nil {
			err = writePEM(s.file("authority"), "CERTIFICATE", s.authority.cert.Raw)
		}
	}
	if err == nil {
		err = s.rotate(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(s.binary, "serve")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR=127.0.0.1:0", "LOOPS=2",
		fmt.Sprint("MAX_CONNECTIONS=", connections), "AUTH_SECRET_FILE=" + s.file("secrets"),
	}
	if encrypted {
		s.cmd.Env = append(s.cmd.Env, "TLS_CERT_FILE="+s.file("cert"), "TLS_KEY_FILE="+s.file("key"))
	}
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.exited })
	lines := bufio.NewScanner(out)
	for (s.addr == "" || s.admin == "") && lines.Scan() {
		switch name, addr, _ := strings.Cut(lines.Text(), " "); name {
		case "client":
			s.addr = addr
		case "admin":
			s.admin = addr
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	if s.addr == "" || s.admin == "" {
		t.Fatalf("the server did not start:\n%s", s.log.String())
	}
	return s
}

// secret is accepted always; beside it stands another one each time.
const secret = "soak-secret"

// rotate exchanges the files of secrets and certificates; of either every fifth
// does not load.
func (s *server) rotate(n int) error {
	text := fmt.Sprintf("%s\n%s\n", secretOf(n), secret)
	if n%5 == badSecrets {
		text = ""
	}
	err := os.WriteFile(s.file("secrets"), []byte(text), 0o600)
	if s.authority != nil {
		err = errors.Join(err, s.authority.issue(n+1, s.file("cert"), s.file("key"), n%5 == badCertificates))
	}
	if s.cmd != nil {
		err = errors.Join(err, s.cmd.Process.Signal(syscall.SIGHUP))
	}
	return err
}

// The turns of five whose files do not load.
const (
	badCertificates = 2
	badSecrets      = 4
)

func secretOf(n int) string { return fmt.Sprint("turn-", n) }

// rotated waits until what rotate n has written is what clients meet.
func (s *server) rotated(n int) error {
	for end := time.Now().Add(patience); ; pause(context.Background(), 10*time.Millisecond) {
		err := s.meets(n)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

func (s *server) meets(n int) error {
	with := secretOf(n)
	if n%5 == badSecrets {
		with = secret
	}
	c, err := s.loginWith(dialer, with)
	if err != nil {
		return err
	}
	defer c.Close()
	if tc, ok := c.Conn.(*tls.Conn); ok && n%5 != badCertificates {
		if serial := tc.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); serial != int64(n+1) {
			return fmt.Errorf("after rotation %d the certificate is that of %d", n, serial-1)
		}
	}
	return c.asks()
}

// shortSince returns what says whether descriptors have been missing since then, or
// just before. Then a connection may not be taken in, and if more clients half-close
// at once than the server has a reserve for, some lose their answers.
func (s *server) shortSince() func() bool {
	before, n := time.Now().UnixNano() < s.shortUntil.Load(), s.shortages.Load()
	return func() bool { return before || n != s.shortages.Load() }
}

// starve takes the file descriptors away for a while: the limit is that of the
// lowest number which is free.
func (s *server) starve(ctx context.Context, spare uint64, d time.Duration) error {
	pid := s.cmd.Process.Pid
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return err
	}
	low := spare
	for {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, low-spare)); err != nil {
			break
		}
		low++
	}
	s.shortUntil.Store(math.MaxInt64)
	s.shortages.Add(1)
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(low, old.Max), Max: old.Max}, nil); err != nil {
		return err
	}
	pause(ctx, d)
	defer func() { s.shortUntil.Store(time.Now().Add(time.Second).UnixNano()) }()
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil)
}

// pause waits, and returns false when the soak is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

var scraper = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (s *server) get(path string) (string, error) {
	resp, err := scraper.Get("http://" + s.admin + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(b), err
}

// metrics is one scrape, by name with labels.
func (s *server) metrics() (map[string]float64, error) {
	text, err := s.get("/metrics")
	if err != nil {
		return nil, err
	}
	m := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' || at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics: %q", line)
		}
		m[line[:at]] = v
	}
	return m, nil
}

// footprint is what the process holds on to.
type footprint struct{ goroutines, files, rss int }

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d KiB resident", f.goroutines, f.files, f.rss>>10)
}

// footprint collects garbage first.
func (s *server) footprint() (f footprint, err error) {
	if _, err := s.get("/debug/pprof/heap?gc=1"); err != nil {
		return f, err
	}
	goroutines, err := s.get("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return f, err
	}
	_, err1 := fmt.Sscanf(goroutines, "goroutine profile: total %d", &f.goroutines)
	pid := s.cmd.Process.Pid
	fds, err2 := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	f.files = len(fds)
	status, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		_, _ = fmt.Sscan(rest, &f.rss)
		f.rss <<= 10
	}
	return f, errors.Join(err1, err2, err3)
}
