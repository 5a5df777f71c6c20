package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/bench"
)

// benchProgress tells how far a run is: as a bar that is drawn over itself on a
// terminal, and elsewhere as a line a second.
type benchProgress struct {
	out     io.Writer
	columns int // of the terminal; 0: out is none
	told    time.Duration
	warming bool
	drawn   bool
}

func newBenchProgress(out io.Writer) *benchProgress {
	b := &benchProgress{out: out, told: -time.Second}
	if file, ok := out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			b.columns = max(int(size.Col), 40)
		}
	}
	return b
}

// tell is called for each interval.
func (b *benchProgress) tell(p bench.Progress) {
	if p.Warming != b.warming {
		b.warming, b.told = p.Warming, -time.Second
	}
	text := benchLine(p)
	if b.columns > 0 {
		bar := benchBar(benchShare(p), max(b.columns-len([]rune(text))-4, 0))
		line := []rune(bar + text)
		fmt.Fprintf(b.out, "\r%s\x1b[K", string(line[:min(len(line), b.columns-1)]))
		b.drawn = true
		return
	}
	if p.Elapsed-b.told >= time.Second-50*time.Millisecond {
		b.told = p.Elapsed
		fmt.Fprintln(b.out, text)
	}
}

// end leaves the line of the bar.
func (b *benchProgress) end() {
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// benchShare is how much of the phase is done, 0 to 1.
func benchShare(p bench.Progress) float64 {
	switch {
	case p.Of > 0:
		return min(p.Elapsed.Seconds()/p.Of.Seconds(), 1)
	case p.Ops > 0:
		return min(float64(p.Done)/float64(p.Ops), 1)
	}
	return 0
}

func benchBar(share float64, width int) string {
	width = min(width, 40)
	if width < 8 {
		return ""
	}
	full := int(share * float64(width))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full) + " "
}

// benchLine is a phase in words.
func benchLine(p bench.Progress) string {
	var text strings.Builder
	if p.Warming {
		text.WriteString("warm-up ")
	}
	fmt.Fprintf(&text, "%.1f", p.Elapsed.Seconds())
	if p.Of > 0 {
		fmt.Fprintf(&text, " of %.4g", p.Of.Seconds())
	}
	text.WriteString(" s")
	if p.Ops > 0 && !p.Warming {
		fmt.Fprintf(&text, ", %d of %d", p.Done, p.Ops)
	}
	fmt.Fprintf(&text, ", %.0f attempts/s", p.Rate)
	if p.P50 > 0 {
		fmt.Fprintf(&text, ", p50 %v, p99 %v", threeDigits(p.P50), threeDigits(p.P99))
	}
	if p.Ended > 0 {
		fmt.Fprintf(&text, ", %d connections ended", p.Ended)
	}
	if p.Violations > 0 {
		fmt.Fprintf(&text, ", VIOLATIONS: %d", p.Violations)
	}
	return text.String()
}

// threeDigits rounds a duration to what is worth reading.
func threeDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
