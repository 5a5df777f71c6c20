package lease

import (
	"testing"
	"time"
)

func TestNoAllocations(t *testing.T) {
	now := Instant(1)
	w := NewWheel(now)
	for i := range uint32(10_000) {
		w.Add(now.Add(time.Duration(i)*time.Millisecond), i)
	}
	n := testing.AllocsPerRun(1000, func() {
		w.Cancel(w.Add(now.Add(5*time.Second), 1))
		now = now.Add(3 * time.Millisecond)
		for now >= w.Next() {
			if value, ok := w.Expire(now); ok {
				w.Add(now.Add(10*time.Second), value)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
