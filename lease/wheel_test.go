package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWheelAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run(t, rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "program"))
	})
}

// Longer programs than rapid likes to draw, with bytes of every size alike.
func TestWheelLongPrograms(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.NewChaCha8([32]byte{0: byte(seed)})
		p := make(program, 10_000)
		r.Read(p)
		t.Logf("seed %d", seed)
		run(t, p)
	}
}

func FuzzWheel(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.NewChaCha8([32]byte{0: byte(seed)})
		p := make(program, 50<<seed>>1)
		r.Read(p)
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, p []byte) { run(t, p) })
}

// A timer is neither early nor late by a tick, on both sides of every border
// between levels, when the loop sleeps until Next; and it sleeps well.
func TestLatenessAndWakeUps(t *testing.T) {
	const second = time.Second
	ahead := []time.Duration{1, Tick - 1, Tick, Tick + 1, 1023 * Tick, 1024 * Tick, 1025 * Tick, 1026 * Tick,
		second, 250 * second, 255 * second, 1 << 38, 1<<38 + Tick, time.Hour, 1<<44 - 1<<38, 1 << 44, 1<<44 + 1<<38, 100 * time.Hour}
	starts := []Instant{1, Instant(Tick), 1<<28 - 1, 1 << 28, 1<<38 - 1, 1 << 38, 1<<44 - 1, 1 << 44, 1<<44 + 12345}
	for _, start := range starts {
		for _, d := range ahead {
			w := NewWheel(start)
			at := start.Add(d)
			w.Add(at, 7)
			now, wakes := start, 0
			for {
				next := w.Next()
				if next <= now {
					t.Fatalf("from %d, %v ahead: Next = %d is not after %d", start, d, next, now)
				}
				now = next
				wakes++
				if value, ok := w.Expire(now); ok {
					if value != 7 {
						t.Fatalf("value %d", value)
					}
					break
				}
			}
			if late := now.Sub(at); late < 0 || late >= Tick {
				t.Errorf("from %d, %v ahead: late by %v", start, d, late)
			}
			if most := 1 + movesFor(Instant(d)); wakes > most {
				t.Errorf("from %d, %v ahead: %d wake-ups, want at most %d", start, d, wakes, most)
			}
			if w.Next() != Never || w.Len() != 0 {
				t.Errorf("from %d, %v ahead: Next = %d, Len = %d at the end", start, d, w.Next(), w.Len())
			}
		}
	}
}

// Between two looks the clock may move by any length: a suspended machine, an
// idle night.
func TestLeap(t *testing.T) {
	w := NewWheel(1)
	const n = 1000
	for i := range uint32(n) {
		w.Add(Instant(i)*Instant(time.Second), i)
	}
	now := Instant(1).Add(900 * time.Hour)
	for i := range uint32(n) {
		if value, ok := w.Expire(now); !ok || value != i {
			t.Fatalf("Expire = %d, %v, want %d", value, ok, i)
		}
	}
	if value, ok := w.Expire(now); ok || w.Next() != Never {
		t.Fatalf("Expire = %d, %v, Next %d on an empty wheel", value, ok, w.Next())
	}
	// What is added now stands as near as on a new wheel.
	w.Add(now.Add(200*time.Millisecond), 1)
	if late := w.Next().Sub(now.Add(200 * time.Millisecond)); late < 0 || late >= Tick {
		t.Errorf("after a leap Next is off by %v", late)
	}
}

func TestPastDeadlineFiresAtOnce(t *testing.T) {
	now := Instant(10*Tick) + 5
	w := NewWheel(now)
	w.Add(now, 1)
	w.Add(now+1, 2)
	if value, ok := w.Expire(now); !ok || value != 1 {
		t.Fatalf("Expire = %d, %v at the deadline itself, want 1", value, ok)
	}
	if value, ok := w.Expire(now); ok {
		t.Fatalf("Expire = %d, 1 ns early", value)
	}
	if next := w.Next(); next != 11*Instant(Tick) {
		t.Fatalf("Next = %d, want the end of the tick", next)
	}
}

// A second Cancel is refused before it touches the list its timer was on.
func TestCancelOfADeadTimerPanics(t *testing.T) {
	w := NewWheel(1)
	bottom, middle, top := w.Add(1<<30, 1), w.Add(1<<30, 2), w.Add(1<<30, 3)
	w.Cancel(middle)
	w.Cancel(top)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		w.Cancel(middle)
	}()
	if w.Len() != 1 {
		t.Errorf("Len = %d after a refused Cancel, want 1", w.Len())
	}
	w.Cancel(bottom)
	if w.Next() != Never || w.Len() != 0 {
		t.Errorf("Next = %d, Len = %d for an empty wheel", w.Next(), w.Len())
	}
}

func TestBurstIsGivenBack(t *testing.T) {
	now := Instant(1)
	w := NewWheel(now)
	start := w.Cap()
	for range 3 {
		for i := range uint32(100_000) {
			w.Add(now.Add(5*time.Second+time.Duration(i%20_000)*time.Microsecond), i)
		}
		if w.Len() != 100_000 || w.Cap() < w.Len() {
			t.Fatalf("Len = %d, Cap = %d", w.Len(), w.Cap())
		}
		now = now.Add(6 * time.Second)
		for n := 0; ; n++ {
			if _, ok := w.Expire(now); !ok {
				if n != 100_000 {
					t.Fatalf("%d timers expired", n)
				}
				break
			}
		}
		if w.Cap() != start {
			t.Fatalf("memory for %d timers after the burst, %d before", w.Cap(), start)
		}
	}
}

func TestInstant(t *testing.T) {
	if got := Instant(5).Add(Seconds(255)).Sub(5); got != 255*time.Second {
		t.Errorf("255 s later is %v later", got)
	}
	if Seconds(0) != 0 || Instant(1<<62) >= Never {
		t.Error("Seconds(0) or Never")
	}
}
