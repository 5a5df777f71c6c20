package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ticketing/bench"
	"ticketing/client/scripted"
)

// A signal ends the run, and what was measured is printed and written; nothing
// is left at the server.
func TestBenchInterrupted(t *testing.T) {
	s := start(t, command(t, nil))
	path := t.TempDir() + "/result.json"
	r := launch(t, clientCommand(s, nil, "bench", "--duration=10m", "--warmup=0s", "--hold=1ms", "--json="+path))
	r.err.await(t, 0, " of 600 s, ")
	r.signal(syscall.SIGINT)
	stdout, _ := r.exits(0)
	if !strings.Contains(stdout, "interrupted") || !strings.Contains(stdout, "verified") || !strings.Contains(stdout, "A granted") {
		t.Errorf("stdout %q", stdout)
	}
	if result := readResult(t, path); !result.Interrupted || result.Counts.Granted == 0 || result.Unanswered != 0 {
		t.Errorf("%+v", result)
	}
	s.awaitMetric("ticketing_keys 0")
}

// A second signal ends a run whose end takes long.
func TestBenchSecondSignal(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := launch(t, clientCommand(nil, nil, "bench", "--addr="+silent.Addr().String(), "--warmup=0s"))
	r.err.await(t, 0, " of 10 s, ")
	r.signal(syscall.SIGTERM)
	for {
		select {
		case <-r.ended:
			// By the signal, or by itself if that came too late.
			if status := r.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() && status.ExitStatus() != 0 {
				t.Errorf("%v", r.cmd.ProcessState)
			}
			return
		case <-time.After(10 * time.Millisecond):
			_ = r.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}

// A server that breaks the protocol is named, and the exit status is 1.
func TestBenchNamesViolations(t *testing.T) {
	srv := scripted.New()
	defer srv.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(ln)
	defer ln.Close()
	srv.Script(scripted.Grant(7), scripted.Grant(7)) // then by the rules, which know nothing of these
	dir := t.TempDir()
	r := launch(t, clientCommand(nil, nil, "bench", "--addr="+ln.Addr().String(), "--ops=100", "--warmup=0s",
		"--connections=1", "--pipeline=2", "--json="+dir+"/r.json", "--report="+dir+"/r.html"))
	stdout, stderr := r.exits(exitViolations)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := lines[len(lines)-1]
	if !regexp.MustCompile(`^ticketing: the server broke the protocol \d+ times; the first: [a-z -]+: key "bench:`).MatchString(last) {
		t.Errorf("stderr %q", stderr)
	}
	if !strings.Contains(stdout, "VIOLATIONS: ") || !strings.Contains(stdout, "token repeated: ") || !strings.Contains(stdout, "token 7 was granted at") {
		t.Errorf("stdout %q", stdout)
	}
	if result := readResult(t, dir+"/r.json"); result.ViolationCounts[bench.TokenRepeated] < 1 {
		t.Errorf("%v", result.Violations)
	}
	if page, err := os.ReadFile(dir + "/r.html"); err != nil || !strings.Contains(string(page), "broke the protocol") {
		t.Errorf("%v", err)
	}
}

// A server that goes away in the middle of a run leaves a result and status 14.
func TestBenchServerGoesAway(t *testing.T) {
	s := start(t, command(t, nil))
	r := launch(t, clientCommand(s, nil, "bench", "--duration=10m", "--warmup=0s"))
	r.err.await(t, 0, " of 600 s, ")
	s.signal(syscall.SIGTERM)
	stdout, stderr := r.exits(exitNoSession)
	if !strings.Contains(stdout, "verified") || !strings.Contains(stdout, "E shutting_down") ||
		!strings.Contains(stderr, "ticketing: 16 of 16 connections ended before the run did; the first: ") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func readResult(t *testing.T, path string) *bench.Result {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	result, err := bench.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// The bar fills its line and no more; what has no terminal gets a line a second.
func TestBenchProgress(t *testing.T) {
	var out strings.Builder
	bar := &benchProgress{out: &out, columns: 60}
	bar.tell(bench.Progress{Of: 10 * time.Second, Elapsed: 5 * time.Second, Rate: 1000, P50: 12345, P99: 2 * time.Second, Violations: 3})
	bar.end()
	if got := out.String(); got != "\r5.0 of 10 s, 1000 attempts/s, p50 12.3µs, p99 2s, VIOLATION\x1b[K\r\x1b[K" {
		t.Errorf("%q", got)
	}
	out.Reset()
	bar.columns = 80
	bar.tell(bench.Progress{Ops: 400, Done: 100, Elapsed: 2 * time.Second, Rate: 50})
	if got := out.String(); got != "\r██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 2.0 s, 100 of 400, 50 attempts/s\x1b[K" {
		t.Errorf("%q", got)
	}
	out.Reset()
	lines := newBenchProgress(&out)
	for i := range 25 {
		lines.tell(bench.Progress{Warming: i < 5, Of: time.Second, Elapsed: time.Duration(i) * 100 * time.Millisecond})
	}
	if got := strings.Count(out.String(), "\n"); got != 3 || strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("%d lines: %q", got, out.String())
	}
}

// The flags of the command and the limits of the package are the same.
func TestBenchDefaults(t *testing.T) {
	var commands cli
	parser, err := newParser(&commands, &process{stdout: os.Stdout, stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"bench", "--addr=h:1"}); err != nil {
		t.Fatal(err)
	}
	got, err := commands.Bench.Run.config(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bench.Defaults()
	want.Addrs, want.Duration = []string{"h:1"}, defaultBenchLasts
	if got.Connections != want.Connections || got.Pipeline != want.Pipeline || got.Threads != want.Threads ||
		got.Keys != want.Keys || got.KeySize != want.KeySize || got.Dist != want.Dist || got.Wait != want.Wait ||
		got.Lease != want.Lease || got.Hold != want.Hold || got.Rate != want.Rate || got.Duration != want.Duration ||
		got.Warmup != want.Warmup || got.Patience != want.Patience || got.Addrs[0] != "h:1" {
		t.Errorf("got  %+v\nwant %+v", *got, want)
	}
	for flag, high := range map[string]int{"connections": bench.MaxConnections, "pipeline": bench.MaxPipeline, "threads": bench.MaxThreads, "keys": bench.MaxKeys} {
		for n, allowed := range map[int]bool{0: false, 1: true, high: true, high + 1: false} {
			cfg := want
			switch flag {
			case "connections":
				cfg.Connections = n
			case "pipeline":
				cfg.Pipeline = n
			case "threads":
				cfg.Threads = n
			case "keys":
				cfg.Keys = n
			}
			_, err := parser.Parse([]string{"bench", "--" + flag + "=" + strconv.Itoa(n)})
			if (err == nil) != allowed || (cfg.Validate() == nil) != allowed {
				t.Errorf("--%s=%d: %v, %v", flag, n, err, cfg.Validate())
			}
		}
	}
}

// The table of flags in the guide is made from the flags themselves.
func TestBenchTableIsCurrent(t *testing.T) {
	var commands cli
	parser, err := newParser(&commands, &process{stdout: os.Stdout, stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| flag | variable | default | allowed | meaning |\n|---|---|---|---|---|\n")
	for _, node := range parser.Model.Children {
		if node.Name != "bench" {
			continue
		}
		for _, f := range node.DefaultCmd.Flags {
			variable := ""
			if len(f.Envs) > 0 {
				variable = "`" + f.Envs[0] + "`"
			}
			fmt.Fprintf(&table, "| `--%s` | %s | %s | %s | %s |\n", f.Name, variable, cellDefault(f), f.Tag.Get("range"), f.Help)
			if f.Help == "" || f.Tag.Get("range") == "" {
				t.Errorf("--%s: help %q, allowed %q", f.Name, f.Help, f.Tag.Get("range"))
			}
		}
	}
	currentTable(t, "<!-- bench:begin -->\n", "<!-- bench:end -->", table.String())
}

// Every violation there is is in the guide.
func TestBenchViolationsInTheGuide(t *testing.T) {
	guide, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range bench.Kinds() {
		if !strings.Contains(string(guide), "\n| "+string(kind)+" | ") {
			t.Errorf("%s does not say what %q is", guidePath, kind)
		}
	}
}
