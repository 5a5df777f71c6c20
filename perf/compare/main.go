package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/perf/compare/floor"
)

// floorVariable, when set, makes this process the floor.
const floorVariable = "COMPARE_FLOOR"

func main() {
	if os.Getenv(floorVariable) != "" {
		fail(floor.Serve())
		return
	}
	runtime.LockOSThread() // servers die with the thread that started them
	binary := flag.String("ticketing", "bin/ticketing", "the server's binary")
	quick := flag.Bool("quick", false, "a minute instead of all, and print only")
	docs := flag.String("docs", "docs", "the directory of performance.md")
	profiles := flag.String("profiles", "", "capture profiles of the server into this directory instead")
	loops := flag.Int("loops", usualLoops(), "LOOPS of the server whose profiles are captured")
	only := flag.String("only", "", "one part of all: "+strings.Join(partNames(), ", ")+"; prints only")
	update := flag.Bool("update", false, "with -only: put that part into the docs, beside what was measured before")
	flag.Parse()
	o := newOptions(*binary, *quick)
	o.only = *only
	if *profiles != "" {
		fail(profile(o, *loops, *profiles))
		return
	}
	r := newResult(o)
	if *only != "" && *update {
		fail(r.read(*docs))
	}
	fail(measure(o, r))
	switch {
	case *only != "" && *update:
		fail(r.writePart(*docs, *only))
	case !*quick && *only == "":
		fail(r.write(*docs))
	}
	for _, t := range targetsOf(r) {
		o.say("%-70s %s", t.what, t.verdict())
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func newOptions(binary string, quick bool) *options {
	o := &options{
		binary: binary, quick: quick,
		settle: 40 * time.Millisecond, slice: 200 * time.Millisecond, rounds: 6, starts: 2,
		say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) },
	}
	if quick {
		o.settle, o.slice, o.rounds, o.starts = 15*time.Millisecond, 50*time.Millisecond, 4, 1
	}
	return o
}

// parts are what there is to measure.
var parts = []struct {
	name    string
	measure func(*options, *result) error
}{
	{"pairs", func(o *options, r *result) (err error) {
		subjects, _ := installed(pairSubjects())
		r.Pairs, err = measurePairs(o, subjects, shapes)
		return err
	}},
	{"hand-overs", func(o *options, r *result) (err error) { r.HandOvers, err = measureHandOvers(o); return err }},
	{"bench", func(o *options, r *result) (err error) { r.Bench, err = measureBench(o); return err }},
	{"lateness", func(o *options, r *result) (err error) { r.Lateness, err = measureLateness(o); return err }},
	{"held", func(o *options, r *result) (err error) { r.Held, err = measureHeld(o); return err }},
	{"connected", func(o *options, r *result) (err error) { r.Connected, err = measureConnected(o); return err }},
	{"sweep", func(o *options, r *result) (err error) { r.Sweep, err = measureSweep(o); return err }},
	{"memory", func(o *options, r *result) (err error) { r.Memory, err = measureMemory(o); return err }},
	{"cluster", func(o *options, r *result) (err error) { r.Cluster, err = measureCluster(o); return err }},
}

func partNames() (names []string) {
	for _, part := range parts {
		names = append(names, part.name)
	}
	return names
}

func newResult(o *options) *result {
	return &result{Machine: thisMachine(), Started: time.Now().UTC().Format(time.DateOnly), Versions: versions(o), Quick: o.quick}
}

// measure does all there is to measure, or the one part that is asked for.
func measure(o *options, r *result) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	}
	_, missing := installed(pairSubjects())
	for _, name := range missing {
		o.say("%s is not installed and is left out", name)
	}
	for _, part := range parts {
		if o.only != "" && o.only != part.name {
			continue
		}
		began := time.Now()
		if err := part.measure(o, r); err != nil {
			return err
		}
		o.say("  (%.0f s)", time.Since(began).Seconds())
	}
	return nil
}
