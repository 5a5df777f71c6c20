package chaos

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// A network holds the rules between addresses. The namespace is this run's own,
// so that all of its rules are replaced at once.
type network struct {
	mu    sync.Mutex
	rules map[rule]int // how many faults want it
}

// A rule is what happens to the packets from one address to another.
type rule struct {
	from, to string
	what     string // an nftables verdict, with its match
}

func newNetwork() *network { return &network{rules: map[rule]int{}} }

// The ways packets are treated.
const dropAll = "drop"

// dropShare loses a share of the packets at random.
func dropShare(percent int) string { return fmt.Sprintf("numgen random mod 100 < %d drop", percent) }

// add puts rules in force; the returned function ends them.
func (n *network) add(rules ...rule) (end func() error, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range rules {
		n.rules[r]++
	}
	end = func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, r := range rules {
			if n.rules[r]--; n.rules[r] == 0 {
				delete(n.rules, r)
			}
		}
		return n.load()
	}
	return end, n.load()
}

// load makes the kernel's rules those that are wanted, in one step.
func (n *network) load() error {
	var b strings.Builder
	b.WriteString("flush ruleset\ntable ip chaos {\n chain out {\n  type filter hook output priority 0; policy accept;\n")
	for _, r := range slices.SortedFunc(maps.Keys(n.rules), func(a, b rule) int {
		return strings.Compare(a.from+a.to+a.what, b.from+b.to+b.what)
	}) {
		fmt.Fprintf(&b, "  ip saddr %s ip daddr %s %s\n", r.from, r.to, r.what)
	}
	b.WriteString(" }\n}\n")
	return feed(b.String(), "nft", "-f", "-")
}

// reset ends every connection between two addresses, both ends at once.
func reset(a, b string) error {
	return feed("", "ss", "--kill", "--tcp", "--no-header", "src", a, "dst", b)
}

// feed runs a tool on an input and wants it to succeed.
func feed(input string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// both returns the rules for both directions.
func both(a, b, what string) []rule { return []rule{{a, b, what}, {b, a, what}} }
