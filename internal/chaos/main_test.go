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
	code := m.Run()
	os.RemoveAll(serverDir)
	os.Exit(code)
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

// serverDir is where server has put it, if it was called.
var serverDir string

// server builds the server once. With an error it returns what the build said.
var server = sync.OnceValues(func() (path string, err error) {
	if serverDir, err = os.MkdirTemp("", "ticketing-chaos-server-"); err != nil {
		return "", err
	}
	path = filepath.Join(serverDir, "ticketing")
	out, err := exec.Command("go", "build", "-o", path, "ticketing/cmd/ticketing").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return path, nil
})
