package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"ticketing/internal/admin"
)

// writeStatus writes a node's status as tables.
func writeStatus(out io.Writer, s *admin.Status) error {
	var text bytes.Buffer
	uptime := time.Duration(s.UptimeSeconds * float64(time.Second)).Round(time.Second)
	headline := fmt.Sprintf("ticketing %s (commit %s, %s), %s, up %v", s.Version, s.Commit, s.GoVersion, statusWord(s), uptime)
	fmt.Fprintln(&text, oneLine(headline))
	table(&text, func(row func(cells ...any)) {
		row("LIMIT", "USED", "OF", "ADMISSION")
		for _, g := range s.Gauges {
			admission := "closed"
			if g.Open {
				admission = "open"
			}
			row(g.Name, g.Used, g.Limit, admission)
		}
	})
	t := &s.Totals
	table(&text, func(row func(cells ...any)) {
		row("SINCE THE START", "COUNT")
		row("granted", t.Granted)
		row("timed out", t.Timeout)
		row("busy", t.Busy)
		row("released", t.Released)
		row("not held", t.NotHeld)
		row("handed over", t.Handovers)
		row("expired", t.Expiries)
		row("connections", t.Accepted)
	})
	table(&text, func(row func(cells ...any)) {
		row("LOOP", "CONNECTIONS", "KEYS", "WAITERS", "AGE")
		for i, l := range s.Loops {
			row(i, l.Connections, l.Keys, l.Waiters, fmt.Sprintf("%.1fs", l.AgeSeconds))
		}
	})
	if len(s.Queues) > 0 {
		table(&text, func(row func(cells ...any)) {
			row("WAITERS", "LONGEST QUEUES")
			for _, q := range s.Queues {
				row(q.Waiters, q.Label)
			}
		})
	}
	_, err := out.Write(text.Bytes())
	return err
}

func statusWord(s *admin.Status) string {
	switch {
	case s.Draining:
		return "draining"
	case s.Ready:
		return "serving"
	}
	return "not ready"
}

// table writes a blank line and rows in columns. Cells are shown on one line,
// whoever chose their text.
func table(out io.Writer, fill func(row func(cells ...any))) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fill(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, oneLine(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	})
	w.Flush()
}
