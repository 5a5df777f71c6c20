package chaos

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ticketing/internal/chaos/history"
)

// Report is what a run came to. It is in report.json of the run's directory.
type Report struct {
	Seed       uint64
	Calls      int
	Outcomes   map[string]int
	Faults     map[string]int
	Elections  int           // changes of the leader that were seen
	Term       uint64        // the last one
	Compared   int           // indexes at which states were compared
	Recovery   time.Duration // the longest time without service when nothing was broken any more
	Gap        time.Duration // the longest time without a grant
	Lateness   time.Duration // see history.Lateness
	Violations []history.Violation
}

// shown is how many violations are printed; all are in report.json.
const shown = 5

// String is the summary.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed        %d\n", r.Seed)
	fmt.Fprintf(&b, "calls       %d: %s\n", r.Calls, counts(r.Outcomes))
	fmt.Fprintf(&b, "faults      %s\n", counts(r.Faults))
	fmt.Fprintf(&b, "leaders     %d, the last in term %d\n", r.Elections, r.Term)
	fmt.Fprintf(&b, "states      compared at %d indexes\n", r.Compared)
	fmt.Fprintf(&b, "recovery    %v at most, when all was whole again\n", r.Recovery.Round(time.Millisecond))
	fmt.Fprintf(&b, "no grant    for %v at most\n", r.Gap.Round(time.Millisecond))
	fmt.Fprintf(&b, "lateness    %v: what an answer took, by which a client may overrate its lease\n", r.Lateness.Round(time.Microsecond))
	fmt.Fprintf(&b, "violations  %d\n", len(r.Violations))
	for i := range r.Violations[:min(shown, len(r.Violations))] {
		fmt.Fprintf(&b, "  %v", &r.Violations[i])
	}
	return b.String()
}

// counts lists numbers by name, the greatest first.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", m[name], name))
	}
	return strings.Join(parts, ", ")
}

// write leaves the report in the directory, and the history when it is asked
// for: one call a line, as JSON.
func (r *Report) write(dir string, ops []history.Op, withHistory bool) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644); err != nil || !withHistory {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for i := range ops {
		if err := lines.Encode(&ops[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// ReadReport reads what a run in that directory came to.
func ReadReport(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, err
	}
	r := &Report{}
	return r, json.Unmarshal(text, r)
}

// longestGap is the longest time between two grants.
func longestGap(ops []history.Op) (most time.Duration) {
	var grants []history.Instant
	for i := range ops {
		if ops[i].Outcome == history.Granted {
			grants = append(grants, ops[i].Return)
		}
	}
	slices.Sort(grants)
	for i := 1; i < len(grants); i++ {
		most = max(most, grants[i].Sub(grants[i-1]))
	}
	return most
}

// crashes returns the lines of a log that tell of a mistake of the program.
func crashes(path string) (lines []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := scan.Text()
		for _, bad := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if strings.Contains(line, bad) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
