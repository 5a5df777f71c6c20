package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the path of a ticketing built as the container file does it.
var binary string

func TestMain(m *testing.M) {
	if text := os.Getenv(cellVariable); text != "" {
		fmt.Fprintln(os.Stderr, enterCell(text)) // returns only when it fails
		os.Exit(97)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ticketing-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "ticketing")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "ticketing/cmd/ticketing")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the server:", err)
		return 1
	}
	for _, path := range []string{dir, binary} { // others than its owner run it
		if err := os.Chmod(path, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
