package e2e

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// serverPath is the path of the server under test.
var serverPath string

// full asks for the greatest sizes the protocol allows.
var full = os.Getenv("E2E_FULL") != ""

// sleepers is how many parallel tests run at once. They mostly wait for
// seconds to pass; whatever needs the processor is not parallel.
const sleepers = "64"

func TestMain(m *testing.M) {
	if os.Getenv(mortalAddr) != "" {
		os.Exit(mortalMain())
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", sleepers); err != nil {
			panic(err)
		}
	}
	os.Exit(run(m))
}

// trackSources makes the go command see that a result is of this server: it
// caches a test's result until a file the test looked at has changed, and no
// import leads from here to the server. It listens only while tests run.
var trackSources = sync.OnceFunc(func() {
	for _, name := range []string{"E2E_FULL", "E2E_RACE", "E2E_TAGS", "E2E_SEED", "E2E_BINARY"} {
		os.Getenv(name)
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && d.Name()[0] == '.':
			return fs.SkipDir
		case filepath.Ext(path) == ".go" || d.Name() == "go.mod":
			_, err = os.Stat(path)
			return err
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
})

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ticketing-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if serverPath = os.Getenv("E2E_BINARY"); serverPath == "" {
		serverPath = filepath.Join(dir, "ticketing")
		args := []string{"build", "-o", serverPath}
		if os.Getenv("E2E_RACE") != "" {
			args = append(args, "-race")
		}
		if tags := os.Getenv("E2E_TAGS"); tags != "" {
			args = append(args, "-tags", tags)
		}
		build := exec.Command("go", append(args, "ticketing/cmd/ticketing")...)
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the server:", err)
			return 1
		}
	}
	if err := boxLag.watch(); err != nil {
		fmt.Fprintln(os.Stderr, "cat:", err)
		return 1
	}
	return m.Run()
}
