package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	Inside()
	os.Exit(m.Run())
}

// needSpace skips a test where namespaces cannot be made.
func needSpace(t *testing.T) {
	t.Helper()
	if err := Missing(); err != nil {
		t.Skip(err)
	}
}

// insideTest says that a test runs in namespaces of its own.
const insideTest = "CHAOS_INSIDE_TEST"

// apart runs the test again in namespaces of its own, and reports whether this
// is there.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideTest) != "" {
		if err := settle(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	needSpace(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideTest+"=1")
	cmd.SysProcAttr = isolated()
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// server builds the server once.
var server = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ticketing-chaos-server-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "ticketing")
	out, err := exec.Command("go", "build", "-o", path, "ticketing/cmd/ticketing").CombinedOutput()
	if err != nil {
		os.RemoveAll(dir)
		return string(out), err
	}
	return path, nil
})
