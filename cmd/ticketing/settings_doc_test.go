package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the settings table into docs/operations.md")

const (
	guidePath  = "../../docs/operations.md"
	tableBegin = "<!-- settings:begin -->\n"
	tableEnd   = "<!-- settings:end -->"
)

// The table of settings in the guide is made from the flags themselves.
func TestSettingsTableIsCurrent(t *testing.T) {
	var table strings.Builder
	table.WriteString("| variable | flag | default | allowed | meaning |\n|---|---|---|---|---|\n")
	for _, f := range serveFlags(t) {
		fmt.Fprintf(&table, "| `%s` | `--%s` | %s | %s | %s |\n", f.Envs[0], f.Name, cellDefault(f), f.Tag.Get("range"), f.Help)
	}
	currentTable(t, tableBegin, tableEnd, table.String())
}

// cellDefault is a flag's default as a table has it.
func cellDefault(f *kong.Flag) string {
	switch shown := shownDefault(f.Value); shown {
	case "":
		return "none"
	case f.Default:
		return "`" + shown + "`"
	default:
		return shown
	}
}

// currentTable checks that the guide has this table between two marks, or with
// -update puts it there.
func currentTable(t *testing.T, begin, end, table string) {
	t.Helper()
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(guide), begin)
	current, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s … %s", guidePath, begin, end)
	}
	if current == table {
		return
	}
	if !*update {
		t.Fatalf("a table in %s is not what the flags are; run: go test ./cmd/ticketing -run TableIsCurrent -update\n%s", guidePath, table)
	}
	text := before + begin + table + end + after
	if err := os.WriteFile(guidePath, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The guide's example of how many files a node needs is worked out here.
func TestFilesInTheGuide(t *testing.T) {
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("that is %d.", filesNeeded(int(c.MaxConnections), 1, 0)); !strings.Contains(string(guide), want) {
		t.Errorf("%s does not say %q", guidePath, want)
	}
	if want := fmt.Sprintf("In a cluster %d more", clusterFiles); !strings.Contains(string(guide), want) {
		t.Errorf("%s does not say %q", guidePath, want)
	}
}
