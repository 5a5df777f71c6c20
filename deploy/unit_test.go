package deploy

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	unitPath        = "systemd/ticketing.service"
	environmentPath = "systemd/ticketing.env"
)

// unit is a unit file: the values of each directive, in order.
type unit map[string][]string

func readUnit(t testing.TB) unit {
	t.Helper()
	f, err := os.Open(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	u := unit{}
	for in := bufio.NewScanner(f); in.Scan(); {
		name, value, ok := strings.Cut(in.Text(), "=")
		if ok && !strings.HasPrefix(name, "#") {
			u[name] = append(u[name], value)
		}
	}
	return u
}

// one is the value of a directive that is there once.
func (u unit) one(t testing.TB, name string) string {
	t.Helper()
	if len(u[name]) != 1 {
		t.Fatalf("%s= is there %d times", name, len(u[name]))
	}
	return u[name][0]
}

func (u unit) number(t testing.TB, name string) int {
	t.Helper()
	n, err := strconv.Atoi(u.one(t, name))
	if err != nil {
		t.Fatalf("%s=: %v", name, err)
	}
	return n
}

// exampleEnvironment is the example of an environment file, and what of it is
// commented out.
func exampleEnvironment(t testing.TB) (set, commented []string) {
	t.Helper()
	data, err := os.ReadFile(environmentPath)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			set = append(set, line)
		} else if setting := regexp.MustCompile(`^#([A-Z_]+=.*)$`).FindStringSubmatch(line); setting != nil {
			commented = append(commented, setting[1])
		}
	}
	return set, commented
}

// analyze runs systemd-analyze, or skips the test where there is none.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no systemd-analyze here: install systemd")
		}
		t.Skip("no systemd-analyze here: the unit was not looked at by systemd")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// systemd takes the unit without a word.
func TestUnitIsVerified(t *testing.T) {
	text, err := os.ReadFile(unitPath)
	if err != nil {
		t.Fatal(err)
	}
	// verify wants the program to be there.
	here := strings.ReplaceAll(string(text), "/usr/local/bin/ticketing", binary)
	if here == string(text) {
		t.Fatal("the unit does not run /usr/local/bin/ticketing")
	}
	path := filepath.Join(t.TempDir(), "ticketing.service")
	if err := os.WriteFile(path, []byte(here), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := analyze(t, "verify", path); out != "" {
		t.Errorf("systemd-analyze verify says:\n%s", out)
	}
}

// What a defect of the server could reach: below 2.0 of 10.
func TestUnitExposure(t *testing.T) {
	out := analyze(t, "security", "--offline=true", unitPath)
	m := regexp.MustCompile(`Overall exposure level for ticketing\.service: (\d+\.\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("systemd-analyze security says:\n%s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level >= 2 {
		t.Errorf("exposure %s, want below 2.0\n%s", m[1], out)
	}
	t.Logf("exposure %s", m[1])
}

// The unit's limit of files holds the most connections and loops there can be,
// and a lower one is found out by --check.
func TestUnitFiles(t *testing.T) {
	files := readUnit(t).number(t, "LimitNOFILE")
	check := func(limit int) (string, error) {
		cmd := exec.Command("sh", "-c", `ulimit -n "$1" && exec "$0" serve --check`, binary, strconv.Itoa(limit))
		cmd.Env = []string{"MAX_CONNECTIONS=8192", "LOOPS=256"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(files); err != nil {
		t.Errorf("LimitNOFILE=%d: %v: %s", files, err, out)
	}
	out, err := check(9000)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "MAX_CONNECTIONS") {
		t.Errorf("9000 files for 8192 connections: %v: %s", err, out)
	}
}

// The example environment is allowed once there is a secret, with the settings
// of a cluster too, and the unit's times fit it and the defaults.
func TestUnitSettings(t *testing.T) {
	u := readUnit(t)
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(secrets)
	if out, err := exec.Command(binary, "certs", "--dir="+dir, "n1=10.0.0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	set, commented := exampleEnvironment(t)
	cluster := slices.DeleteFunc(commented, func(e string) bool { return !strings.HasPrefix(e, "CLUSTER_") })
	if len(cluster) < 8 {
		t.Errorf("%d settings of a cluster", len(cluster))
	}
	for _, example := range [][]string{set, append(slices.Clone(set), cluster...)} {
		cmd := exec.Command(binary, "serve", "--check")
		for _, e := range example {
			e = strings.Replace(e, "/etc/ticketing/", dir+"/", 1)
			cmd.Env = append(cmd.Env, strings.Replace(e, stateDir, dir+"/state", 1))
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", example, err, out)
		}
	}
	const drain = 10 * time.Second // of DRAIN_TIMEOUT, by default
	if stop := time.Duration(u.number(t, "TimeoutStopSec")) * time.Second; stop < 2*drain {
		t.Errorf("TimeoutStopSec=%v is short for a drain of %v", stop, drain)
	}
	for name, want := range map[string]string{"Type": "notify", "Restart": "always", "EnvironmentFile": "-/etc/ticketing/ticketing.env"} {
		if got := u.one(t, name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	// A Go program that crashes exits with 2, which must be no reason to stay down.
	if u["RestartPreventExitStatus"] != nil || u["SuccessExitStatus"] != nil {
		t.Error("some exit statuses are not restarted")
	}
}
