package shard

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Queue is a key and how many attempts wait for it.
type Queue struct {
	Key     string `json:"key"`
	Waiters int    `json:"waiters"`
}

// Longest returns up to n of the longest queues, the longest first. It looks at
// every waiter, allocates, and is for a human who asks.
func (s *Shard) Longest(n int) []Queue {
	var queues []Queue
	s.waiters.Live(0, math.MaxInt, func(j uint32) {
		w := s.waiters.At(j)
		if w.prev != 0 {
			return
		}
		e := s.entries.At(w.entry)
		queues = append(queues, Queue{string(s.keys.keyOf(e)), int(e.waiters)})
	})
	slices.SortFunc(queues, func(a, b Queue) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), strings.Compare(a.Key, b.Key))
	})
	return queues[:min(n, len(queues))]
}
