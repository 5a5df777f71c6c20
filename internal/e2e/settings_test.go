package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// refuses runs a server that must end by itself, at once, without having
// printed an address.
func refuses(t testing.TB, env ...string) (code int, stderr string) {
	t.Helper()
	return ends(t, command(env...))
}

func ends(t testing.TB, cmd *exec.Cmd) (code int, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		<-ctx.Done()
		cmd.Process.Kill()
	}()
	begin := time.Now()
	cmd.Wait()
	if d := time.Since(begin); d > 2*time.Second+slack(begin) {
		t.Errorf("%v: the server ended only after %v", cmd.Env[3:], d)
	}
	if out.Len() > 0 {
		t.Errorf("%v: the server printed %q", cmd.Env[3:], out.String())
	}
	return cmd.ProcessState.ExitCode(), errs.String()
}

// TestSettingsOutOfRange: a value out of range ends the start with exit 2 and
// one line that names the setting, the value and what is allowed.
func TestSettingsOutOfRange(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ name, value, allowed string }{
		{"LOOPS", "0", "256"}, {"LOOPS", "257", "256"}, {"LOOPS", "-1", "256"}, {"LOOPS", "two", "256"}, {"LOOPS", "1.5", "256"},
		{"MAX_CONNECTIONS", "0", "8192"}, {"MAX_CONNECTIONS", "8193", "8192"},
		{"MAX_WAITERS", "0", "16384"}, {"MAX_WAITERS", "16385", "16384"},
		{"MAX_TOTAL_WAITERS", "0", "65536"}, {"MAX_TOTAL_WAITERS", "65537", "65536"},
		{"MAX_KEYS", "0", "16777216"}, {"MAX_KEYS", "16777217", "16777216"}, {"MAX_KEYS", "99999999999999999999", "16777216"},
		{"DRAIN_TIMEOUT", "-1s", "5m"}, {"DRAIN_TIMEOUT", "5m1s", "5m"}, {"DRAIN_TIMEOUT", "soon", "5m"},
		{"LOG_LEVEL", "loud", "debug"}, {"LOG_FORMAT", "xml", "json"},
		{"LISTEN_ADDR", "nonsense", ""}, {"LISTEN_ADDR", "127.0.0.1", ""}, {"LISTEN_ADDR", "127.0.0.1:99999", ""},
		{"ADMIN_ADDR", "nonsense", ""},
		{"ALLOW_INSECURE", "perhaps", "true"},
		{"AUTH_SECRET_FILE", missing, ""},
	} {
		t.Run(c.name+"="+filepath.Base(c.value), func(t *testing.T) {
			code, stderr := refuses(t, c.name+"="+c.value)
			line := strings.TrimSuffix(stderr, "\n")
			if code != 2 {
				t.Errorf("exit %d, want 2", code)
			}
			for _, part := range []string{c.name, c.value, c.allowed} {
				if !strings.Contains(line, part) {
					t.Errorf("%q does not name %q", line, part)
				}
			}
			if line == "" || strings.Contains(line, "\n") {
				t.Errorf("want one line, got %q", stderr)
			}
		})
	}
}

// TestSettingsInRange: both ends of each range are accepted.
func TestSettingsInRange(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{
		{"LOOPS=1", "MAX_CONNECTIONS=1", "MAX_WAITERS=1", "MAX_TOTAL_WAITERS=1", "MAX_KEYS=1", "DRAIN_TIMEOUT=0s"},
		{"LOOPS=256", "MAX_CONNECTIONS=8192", "MAX_WAITERS=16384", "MAX_TOTAL_WAITERS=65536", "MAX_KEYS=16777216", "DRAIN_TIMEOUT=5m"},
		{"LOG_LEVEL=debug", "LOG_FORMAT=json"},
		{"LOG_LEVEL=error", "LOG_FORMAT=text"},
		{"LISTEN_ADDR=127.0.0.1:0", "ADMIN_ADDR="},
	} {
		s := start(t, env...)
		s.dial(t).quiet()
		if s.admin != "" {
			if status, _ := s.get(t, "/readyz"); status != 200 {
				t.Errorf("%v: /readyz is %d", env, status)
			}
		}
		s.kill()
	}
}

// TestFlagWins: each setting is a flag too, and the flag wins.
func TestFlagWins(t *testing.T) {
	cmd := command("MAX_CONNECTIONS=5", "LOOPS=0")
	cmd.Args = append(cmd.Args, "--max-connections", "1", "--loops=2")
	s := startCommand(t, cmd)
	s.dial(t).quiet()
	if err := s.dial(t).turnedAway(); err != nil {
		t.Error(err)
	}
	for _, flag := range []string{"--max-conections=5", "--nonsense", "extra"} {
		cmd := command()
		cmd.Args = append(cmd.Args, flag)
		if code, stderr := ends(t, cmd); code != 2 || !strings.Contains(stderr, strings.SplitN(flag, "=", 2)[0]) {
			t.Errorf("%s: exit %d: %s", flag, code, stderr)
		}
	}
	cmd = command()
	cmd.Args = append(cmd.Args, "--max-waiters=0")
	if code, stderr := ends(t, cmd); code != 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("--max-waiters=0: exit %d: %s", code, stderr)
	}
}

// TestSecretsAreNotPrinted: an error about secrets does not say them.
func TestSecretsAreNotPrinted(t *testing.T) {
	path := secretFile(t, "hush-hush\r", "hush-hush-2")
	_, stderr := refuses(t, "AUTH_SECRET_FILE="+path, "MAX_WAITERS=0")
	if strings.Contains(stderr, "hush") {
		t.Errorf("printed: %s", stderr)
	}
}

// TestFileLimit: a limit of open files below what MAX_CONNECTIONS needs is
// exit 1, and the line says what to do about it.
func TestFileLimit(t *testing.T) {
	cmd := prepared(exec.Command("sh", "-c", "ulimit -n 200 && exec \"$0\" serve", serverPath), "MAX_CONNECTIONS=1000")
	code, stderr := ends(t, cmd)
	if code != 1 || !strings.Contains(stderr, "MAX_CONNECTIONS") || !strings.Contains(stderr, "1000") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	cmd = prepared(exec.Command("sh", "-c", "ulimit -n 200 && exec \"$0\" serve", serverPath), "MAX_CONNECTIONS=20", "LOOPS=1")
	startCommand(t, cmd).dial(t).quiet()
	// The soft limit alone is no matter: it is raised to the hard one.
	cmd = prepared(exec.Command("sh", "-c", "ulimit -Sn 200 && exec \"$0\" serve", serverPath), "MAX_CONNECTIONS=1000")
	startCommand(t, cmd).dial(t).quiet()
}

// TestAddressInUse: a second server on a port ends at once with exit 1.
func TestAddressInUse(t *testing.T) {
	s := start(t)
	for name, addr := range map[string]string{"LISTEN_ADDR": s.addr, "ADMIN_ADDR": s.admin} {
		for range 3 {
			code, stderr := refuses(t, fmt.Sprintf("%s=%s", name, addr))
			if code != 1 || !strings.Contains(stderr, name) || !strings.Contains(stderr, addr) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit %d: %q", name, code, stderr)
			}
		}
	}
	s.dial(t).quiet()
}
