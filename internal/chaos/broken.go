package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A mistake is a change of the source that makes the service wrong in one way.
type mistake struct {
	Name   string
	Edits  []edit
	Only   []string // the faults that bring it to light
	Single bool     // it needs no cluster
	Quiet  bool     // it shows when there is no load
}

// An edit changes one file. What it replaces must be there once, or building
// fails: the list follows the code.
type edit struct {
	File     string // within the module
	Old, New string
}

// FindMistakes makes a run with each known mistake built in that has the given
// text in its name, and returns an error unless each is found.
func FindMistakes(ctx context.Context, cfg Config, named string, out io.Writer) error {
	var missed []string
	for _, m := range mistakes {
		if m.Single != cfg.Single || !strings.Contains(m.Name, named) {
			continue
		}
		fmt.Fprintf(out, "--- %s\n", m.Name)
		found, err := m.find(ctx, cfg, out)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if found {
			fmt.Fprintf(out, "--- %s: found\n", m.Name)
		} else {
			missed = append(missed, m.Name)
			fmt.Fprintf(out, "--- %s: NOT FOUND\n", m.Name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("not found: %s", strings.Join(missed, "; "))
	}
	return nil
}

// find builds the mistake in and reports whether a run of it finds a violation
// of what clients were told; that a server ended does not count.
func (m *mistake) find(ctx context.Context, cfg Config, out io.Writer) (bool, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	cfg.Dir, cfg.Only, cfg.Quiet, cfg.Binary = dir, m.Only, m.Quiet, filepath.Join(dir, "ticketing")
	if err := m.build(ctx, cfg.Binary, dir); err != nil {
		return false, err
	}
	err = Enter(ctx, Job{Run: &cfg}, out)
	if err == nil || !errors.Is(err, ErrFound) {
		return false, err
	}
	report, err := ReadReport(dir)
	if err != nil {
		return false, err
	}
	for i := range report.Violations {
		if report.Violations[i].Check != "run" {
			return true, nil
		}
	}
	return false, nil
}

// build builds the server with the mistake; no file of the module changes.
func (m *mistake) build(ctx context.Context, binary, dir string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for i, e := range m.Edits {
		path := filepath.Join(root, filepath.FromSlash(e.File))
		text, err := e.spoiled(path)
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("spoiled%d.go", i))
		if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", binary, "ticketing/cmd/ticketing")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building it: %w: %s", err, said)
	}
	return nil
}

// spoiled returns the file with the mistake.
func (e *edit) spoiled(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), e.Old); n != 1 {
		return "", fmt.Errorf("%s has the text to be changed %d times, want once:\n%s", e.File, n, e.Old)
	}
	return strings.Replace(string(text), e.Old, e.New, 1), nil
}

// moduleRoot is the directory of the module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
