package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
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
	flag.Parse()
	o := newOptions(*binary, *quick)
	r, err := measure(o)
	fail(err)
	if !*quick {
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

// measure does all there is to measure.
func measure(o *options) (*result, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	}
	r := &result{Machine: thisMachine(), Started: time.Now().UTC().Format(time.DateOnly), Quick: o.quick}
	subjects, missing := installed(pairSubjects())
	for _, name := range missing {
		o.say("%s is not installed and is left out", name)
	}
	r.Versions = versions(o)
	var err error
	for _, part := range []func() error{
		func() error { r.Pairs, err = measurePairs(o, subjects, shapes); return err },
		func() error { r.HandOvers, err = measureHandOvers(o); return err },
		func() error { r.Bench, err = measureBench(o); return err },
		func() error { r.Lateness, err = measureLateness(o); return err },
		func() error { r.Held, err = measureHeld(o); return err },
		func() error { r.Connected, err = measureConnected(o); return err },
		func() error { r.Sweep, err = measureSweep(o); return err },
		func() error { r.Memory, err = measureMemory(o); return err },
	} {
		began := time.Now()
		if err := part(); err != nil {
			return nil, err
		}
		o.say("  (%.0f s)", time.Since(began).Seconds())
	}
	return r, nil
}
