package client_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// postgres is a PostgreSQL of the test's own, on a socket in its directory.
type postgres struct {
	bin, dir string
	as       *syscall.Credential // it refuses to run as root
}

func itoa(n int) string { return strconv.Itoa(n) }

// startPostgres skips the test when PostgreSQL is not installed.
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	if testing.Short() {
		t.Skip("PostgreSQL takes seconds to start")
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "ticketing-pg") // a short path: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	pg := &postgres{bin: filepath.Dir(found[0]), dir: dir}
	if os.Getuid() == 0 {
		owner, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("running as root, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(owner.Uid)
		gid, _ := strconv.Atoi(owner.Gid)
		pg.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := pg.command("initdb", "-D", data, "-U", "test", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := pg.command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	said := ""
	for !strings.Contains(said, "ready to accept connections") {
		if !lines.Scan() {
			t.Fatalf("postgres did not start: %s", said)
		}
		said += lines.Text() + "\n"
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	return pg
}

func (pg *postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(pg.bin, name), args...)
	cmd.Dir = pg.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pg.as, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (pg *postgres) psql() *exec.Cmd {
	return pg.command("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", pg.dir, "-U", "test", "postgres")
}

// transaction is a psql that is told one statement after another.
type transaction struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func (pg *postgres) begin(t *testing.T) *transaction {
	t.Helper()
	cmd := pg.psql()
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	tx := &transaction{t, in, bufio.NewScanner(out)}
	tx.tell("BEGIN;")
	return tx
}

func (tx *transaction) tell(sql string) {
	if _, err := io.WriteString(tx.in, sql+"\n"); err != nil {
		tx.t.Error(err)
	}
}

// ask returns what a statement prints; it blocks as long as the statement does.
func (tx *transaction) ask(sql string) string {
	tx.tell(sql + "\n\\echo done")
	got := ""
	for tx.out.Scan() && tx.out.Text() != "done" {
		got += tx.out.Text() + "\n"
	}
	return got
}

// TestClient_4_FencingOrdersTransactions holds what docs/client.md says of the
// row's lock: of two holders the older one's transaction has either committed
// before the newer one's goes on, or is rejected.
func TestClient_4_FencingOrdersTransactions(t *testing.T) {
	docs := readFencingSQL(t)
	pg := startPostgres(t)
	runSQL(t, pg.psql(), docs.once)
	check := func(token string) string { return fill(docs.check, token) }
	blocked := func() {
		t.Helper()
		for range 1000 {
			if strings.Contains(runSQL(t, pg.psql(), "SELECT count(*) FROM pg_locks WHERE NOT granted;"), "1") {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Fatal("the second transaction was not blocked")
	}
	// The older one is first: the newer one waits for its commit.
	older, newer := pg.begin(t), pg.begin(t)
	if got := older.ask(check("1")); !strings.Contains(got, "1") {
		t.Fatalf("the first check: %q", got)
	}
	answer := make(chan string, 1)
	go func() { answer <- newer.ask(check("2")) }()
	blocked()
	older.tell("COMMIT;")
	if got := <-answer; !strings.Contains(got, "2") {
		t.Fatalf("the newer one: %q", got)
	}
	// The newer one is first: the older one waits, and is rejected.
	late := pg.begin(t)
	go func() { answer <- late.ask(check("1")) }()
	blocked()
	newer.tell("COMMIT;")
	if got := <-answer; strings.Contains(got, "1") {
		t.Fatalf("the older one: %q", got)
	}
}
