package procs

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

func eventually(t *testing.T, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); runtime.GOMAXPROCS(0) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("GOMAXPROCS is %d, want %d", runtime.GOMAXPROCS(0), want)
		}
	}
}

func TestGovernor(t *testing.T) {
	if os.Getenv("GOMAXPROCS") != "" {
		t.Setenv("GOMAXPROCS", "") // restored by Setenv when the test ends
	}
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	many := max(before, 2)

	g := New(1)
	if runtime.GOMAXPROCS(0) != many {
		t.Fatalf("starts with %d processors, want %d", runtime.GOMAXPROCS(0), many)
	}
	eventually(t, 1)

	g.Enter()
	if runtime.GOMAXPROCS(0) != many {
		t.Fatalf("at work with %d processors, want %d", runtime.GOMAXPROCS(0), many)
	}
	g.Enter()
	g.Leave()
	g.settle() // a timer that was set before the second Enter
	if runtime.GOMAXPROCS(0) != many {
		t.Fatalf("the first worker was left with %d processors, want %d", runtime.GOMAXPROCS(0), many)
	}
	g.Leave()
	eventually(t, 1)

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				g.Enter()
				if n := runtime.GOMAXPROCS(0); n != many {
					t.Errorf("at work with %d processors, want %d", n, many)
				}
				g.Leave()
			}
		})
	}
	wg.Wait()
	g.Close()
	g.settle()
	if runtime.GOMAXPROCS(0) != many {
		t.Fatalf("after Close %d processors, want %d", runtime.GOMAXPROCS(0), many)
	}
}

func TestGovernorYieldsToTheOperator(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3")
	before := runtime.GOMAXPROCS(0)
	g := New(1)
	g.Enter()
	g.Leave()
	g.Close()
	if g != nil || runtime.GOMAXPROCS(0) != before {
		t.Fatalf("GOMAXPROCS was set by the operator and changed from %d to %d", before, runtime.GOMAXPROCS(0))
	}
}
