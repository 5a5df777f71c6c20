package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Mark is what a replica said of its state after it had applied the entry with
// that index.
type Mark struct {
	Node  string
	Index uint64
	Hash  string
}

// Hashes checks that equal indexes mean equal states. Compared is how many
// indexes two nodes or more spoke of; with 0 nothing was checked.
func Hashes(marks []Mark) (all []Violation, compared int) {
	byIndex := map[uint64]map[string]Mark{} // index, node
	for _, m := range marks {
		nodes := byIndex[m.Index]
		if nodes == nil {
			nodes = map[string]Mark{}
			byIndex[m.Index] = nodes
		}
		if old, ok := nodes[m.Node]; ok && old.Hash != m.Hash {
			all = append(all, Violation{Check: "hashes",
				What: fmt.Sprintf("%s gave two hashes of its state at index %d: %s and %s", m.Node, m.Index, old.Hash, m.Hash)})
		}
		nodes[m.Node] = m
	}
	for index, nodes := range byIndex {
		if len(nodes) < 2 {
			continue
		}
		compared++
		var marks []Mark
		for _, m := range nodes {
			marks = append(marks, m)
		}
		slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(a.Node, b.Node) })
		for _, m := range marks[1:] {
			if m.Hash != marks[0].Hash {
				all = append(all, Violation{Check: "hashes", What: fmt.Sprintf("at index %d the state of %s is %s and that of %s is %s",
					index, marks[0].Node, marks[0].Hash, m.Node, m.Hash)})
			}
		}
	}
	slices.SortFunc(all, func(a, b Violation) int { return cmp.Compare(a.What, b.What) })
	return all, compared
}
