package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// result is everything a run has measured; docs/performance/compare.json.
type result struct {
	Started   string            `json:"date"`
	Machine   machine           `json:"machine"`
	Versions  []string          `json:"versions"`
	Quick     bool              `json:"quick,omitempty"`
	Pairs     []pairSection     `json:"pairs"`
	HandOvers []handOverSection `json:"hand_overs"`
	Bench     []benchCost       `json:"bench"`
	Lateness  []lateness        `json:"lateness"`
	Held      []growth          `json:"growth_with_keys_held"`
	Connected []growth          `json:"growth_with_connections"`
	Sweep     *sweepSection     `json:"sweep"`
	Memory    []weight          `json:"memory"`
	Cluster   *clusterSection   `json:"cluster,omitempty"`
}

// machine is where it ran.
type machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	m := machine{CPU: "unknown", CPUs: runtime.NumCPU(), Go: runtime.Version()}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(release))
	}
	return m
}

// versions are the first lines of what the servers say of themselves.
func versions(o *options) (all []string) {
	for _, args := range [][]string{{o.binary, "version"}, {"redis-server", "--version"}, {"memcached", "--version"}, {"etcd", "--version"}} {
		if line := firstLine(args[0], args[1:]...); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// firstLine is the first line that a command prints; empty if it fails.
func firstLine(command string, args ...string) string {
	out, err := exec.Command(command, args...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// write puts the tables into performance.md in that directory, and the plots and
// the figures into the directory beside it.
func (r *result) write(docs string) error {
	if err := os.MkdirAll(filepath.Join(docs, "performance"), 0o755); err != nil {
		return err
	}
	for name, plot := range plotsOf(r) {
		if err := os.WriteFile(filepath.Join(docs, "performance", name), []byte(plot), 0o644); err != nil {
			return err
		}
	}
	return r.writeTables(docs, tablesOf(r))
}

// read takes over the figures of an earlier run.
func (r *result) read(docs string) error {
	text, err := os.ReadFile(figuresFile(docs))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, r)
}

// writePart writes the figures, and of the tables only the one of a part and the
// targets.
func (r *result) writePart(docs, part string) error {
	all := tablesOf(r)
	if all[part] == "" {
		return fmt.Errorf("%s has no table of its own", part)
	}
	return r.writeTables(docs, map[string]string{part: all[part], "targets": all["targets"]})
}

func figuresFile(docs string) string { return filepath.Join(docs, "performance", "compare.json") }

// writeTables writes the figures, and tables into their places.
func (r *result) writeTables(docs string, tables map[string]string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(figuresFile(docs), append(text, '\n'), 0o644); err != nil {
		return err
	}
	page := filepath.Join(docs, "performance.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	updated := string(old)
	for name, table := range tables {
		if updated, err = replaceTable(updated, name, table); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	return os.WriteFile(page, []byte(updated), 0o644)
}

// replaceTable puts a table between its two markers.
func replaceTable(page, name, table string) (string, error) {
	begin, end := "<!-- compare:"+name+":begin -->\n", "<!-- compare:"+name+":end -->\n"
	from, to := strings.Index(page, begin), strings.Index(page, end)
	if from < 0 || to < from {
		return "", fmt.Errorf("no place for the table %q: %q and %q", name, begin, end)
	}
	return page[:from+len(begin)] + table + page[to:], nil
}
