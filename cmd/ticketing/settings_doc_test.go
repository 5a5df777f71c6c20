package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
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
		shown := shownDefault(f.Value)
		if shown == f.Default && shown != "" {
			shown = "`" + shown + "`"
		}
		if shown == "" {
			shown = "none"
		}
		fmt.Fprintf(&table, "| `%s` | `--%s` | %s | %s | %s |\n", f.Envs[0], f.Name, shown, f.Tag.Get("range"), f.Help)
	}
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(guide), tableBegin)
	current, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s … %s", guidePath, tableBegin, tableEnd)
	}
	if current == table.String() {
		return
	}
	if !*update {
		t.Fatalf("the settings in %s are not what serve takes; run: go test ./cmd/ticketing -run SettingsTable -update\n%s", guidePath, table.String())
	}
	text := before + tableBegin + table.String() + tableEnd + after
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
	if want := fmt.Sprintf("that is %d.", filesNeeded(int(c.MaxConnections), 1)); !strings.Contains(string(guide), want) {
		t.Errorf("%s does not say %q", guidePath, want)
	}
}
