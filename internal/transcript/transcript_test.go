package transcript

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Writers and readers at once lose nothing and tear no line.
func TestBuffer(t *testing.T) {
	const writers, each = 8, 200
	var b Buffer
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				fmt.Fprintf(&b, "line of %d\n", w)
				_ = b.String()
			}
		})
	}
	wg.Wait()
	counts := map[string]int{}
	for line := range strings.Lines(b.String()) {
		counts[line]++
	}
	for w := range writers {
		if n := counts[fmt.Sprintf("line of %d\n", w)]; n != each || len(counts) != writers {
			t.Fatalf("%d lines of %d, want %d; %d kinds of line", n, w, each, len(counts))
		}
	}
}
