package rules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")

// Every threat that docs/security.md tells of has a test, and the tests it names
// are there.
func TestThreatsHaveTests(t *testing.T) {
	tr, err := project()
	if err != nil {
		t.Fatal(err)
	}
	declared := tr.tests()
	if !declared["TestThreatsHaveTests"] || declared["TestThreatsHaveNoTests"] {
		t.Fatal("the tests of the project were not read")
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, wrong := threats(string(text), declared)
	if rows < 30 {
		t.Errorf("%d threats were found", rows)
	}
	for _, what := range wrong {
		t.Errorf("docs/security.md: %s", what)
	}
	for table, want := range map[string]int{
		"| does | costs | limit | `TestThreatsHaveTests`, `FuzzNone` |": 1, // FuzzNone is not there
		"| does | costs | limit | none |":                               1,
		"| does | costs | limit | `TestThreatsHaveTests` |":             0,
	} {
		begin, end := "<!-- threats:begin -->\n| a | b | c | d |\n|---|---|---|---|\n", "\n<!-- threats:end -->"
		if rows, wrong := threats(begin+table+end, declared); rows != 1 || len(wrong) != want {
			t.Errorf("%s: %d rows, wrong: %v", table, rows, wrong)
		}
	}
}

// threats counts the rows of the tables of threats, and tells of those without a
// test and of tests, named anywhere, that are not there.
func threats(text string, declared map[string]bool) (rows int, wrong []string) {
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		if !declared[m[1]] {
			wrong = append(wrong, "there is no "+m[1])
		}
	}
	_, tables, _ := strings.Cut(text, "<!-- threats:begin -->")
	tables, _, _ = strings.Cut(tables, "<!-- threats:end -->")
	before := ""
	for line := range strings.Lines(tables) {
		row := strings.HasPrefix(line, "| ") && strings.HasPrefix(before, "|")
		before = line
		if !row {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !testName.MatchString(cells[3]) {
			wrong = append(wrong, "no test in the row: "+line)
		}
	}
	return rows, wrong
}

// tests are the names of all tests, fuzz targets and benchmarks.
func (tr *tree) tests() map[string]bool {
	all := map[string]bool{}
	for _, p := range tr.packages {
		for _, file := range p.tests {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					all[f.Name.Name] = true
				}
			}
		}
	}
	return all
}
