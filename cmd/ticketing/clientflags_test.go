package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// clientCommands are the commands whose flags the guide has in one table.
var clientCommands = []string{"lock", "acquire", "release", "status"}

// The table of client flags in the guide is made from the flags themselves.
func TestClientTableIsCurrent(t *testing.T) {
	takenBy := make(map[string][]string)
	for _, command := range clientCommands {
		for _, f := range flagsOf(t, command) {
			takenBy[f.Name] = append(takenBy[f.Name], command)
		}
	}
	var table strings.Builder
	table.WriteString("| flag | of | variable | default | allowed | meaning |\n|---|---|---|---|---|---|\n")
	for _, command := range clientCommands {
		for _, f := range flagsOf(t, command) {
			if takenBy[f.Name][0] != command || len(f.Envs) == 0 {
				continue
			}
			fmt.Fprintf(&table, "| `--%s` | %s | `%s` | %s | %s | %s |\n",
				f.Name, strings.Join(takenBy[f.Name], ", "), f.Envs[0], cellDefault(f), f.Tag.Get("range"), f.Help)
		}
	}
	currentTable(t, "<!-- client:begin -->\n", "<!-- client:end -->", table.String())
}

// What the commands take is known to the check for variables that mean nothing,
// and what that knows exists.
func TestClientVariablesAreKnown(t *testing.T) {
	taken := []string{keyVariable, tokenVariable}
	for _, command := range clientCommands {
		for _, f := range flagsOf(t, command) {
			for _, name := range f.Envs {
				if !strings.HasPrefix(name, "TICKETING_") {
					continue
				}
				taken = append(taken, name)
				if want := "TICKETING_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")); name != want {
					t.Errorf("--%s has the variable %s, want %s", f.Name, name, want)
				}
				if err := checkVariables([]string{name + "=x"}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for name := range clientVariables {
		if !slices.Contains(taken, name) {
			t.Errorf("nothing takes %s", name)
		}
	}
}

// The inputs of an attempt are rounded up before they are compared with what is
// allowed (§1 of the client's rules), and never clamped.
func TestClientValues(t *testing.T) {
	for args, allowed := range map[string]bool{
		"--wait=0":                       true,
		"--wait=-1ns":                    false,
		"--wait=255s":                    true,
		"--wait=254s1ns":                 true,
		"--wait=255.000000001s":          false,
		"--wait=9223372036854775807ns":   false,
		"--wait=30":                      false,
		"--wait=":                        false,
		"--lease=0s":                     false,
		"--lease=-1s":                    false,
		"--lease=1ns":                    true,
		"--lease=250s":                   true,
		"--lease=250.000000001s":         false,
		"--min-work-budget=0s":           true,
		"--min-work-budget=250s":         true,
		"--min-work-budget=251s":         false,
		"--addr=a:1":                     true,
		"--addr=a:1,[::1]:65535":         true,
		"--addr=a:0":                     false,
		"--addr=a:65536":                 false,
		"--addr=:1":                      false,
		"--addr=a:1,":                    false,
		"--addr=a:1,b":                   false,
		"--addr=a:1,a:1":                 false,
		"--wait=1s --wait=2s --lease=9s": true,
	} {
		var commands cli
		parser, err := newParser(&commands, &process{stdout: io.Discard, stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(append([]string{"acquire", "k"}, strings.Fields(args)...)); err == nil != allowed {
			t.Errorf("%s: %v", args, err)
		}
	}
}
