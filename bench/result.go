package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// resultVersion changes when files of an older version can no longer be read.
const resultVersion = 1

// Result is what a run found, and the JSON file of it. Times are seconds,
// latencies ns.
type Result struct {
	Version int       `json:"version"`
	Program string    `json:"program,omitempty"` // what made it, for the caller to set
	Started time.Time `json:"started"`
	Host    Host      `json:"host"`
	Setup   Setup     `json:"setup"`

	Seconds     float64 `json:"seconds"` // that were measured
	Interrupted bool    `json:"interrupted,omitempty"`
	Counts      Counts  `json:"counts"` // answered within Seconds
	CPU         CPU     `json:"cpu"`

	// Of the open loop: attempts that were due within Seconds and answered later,
	// which are in Latency; and those that did not even begin in that time.
	Late   int64 `json:"late,omitempty"`
	Unsent int64 `json:"unsent,omitempty"`

	// Requests without an answer that are no violation: their connection ended,
	// or the run was told to stop before the answer was due.
	Indeterminate int64 `json:"indeterminate,omitempty"`
	Unanswered    int64 `json:"unanswered,omitempty"`
	Ends          Ends  `json:"ends,omitzero"`

	Latency map[string]Latency `json:"latency_ns"` // by the names of Counts
	Series  []Point            `json:"series"`

	ViolationCounts map[Kind]int64 `json:"violation_counts,omitempty"`
	Violations      []Violation    `json:"violations,omitempty"` // the first of each kind

	start int64 // of measuring, ns since the run began
}

// Host is where the generator ran.
type Host struct {
	Name string `json:"name"`
	OS   string `json:"os"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Setup is the configuration of a run, without secrets.
type Setup struct {
	Addr        string  `json:"addr"`
	InProcess   bool    `json:"in_process,omitempty"` // the server shares the process; for the caller to set
	TLS         bool    `json:"tls,omitempty"`
	Connections int     `json:"connections"`
	Pipeline    int     `json:"pipeline"`
	Threads     int     `json:"threads"`
	Keys        int     `json:"keys"`
	KeySize     int     `json:"key_size"`
	Dist        Dist    `json:"dist"`
	Wait        float64 `json:"wait"`
	Lease       float64 `json:"lease"`
	Hold        float64 `json:"hold"`
	Rate        float64 `json:"rate,omitempty"` // 0: closed loop
	Duration    float64 `json:"duration,omitempty"`
	Ops         int64   `json:"ops,omitempty"`
	Warmup      float64 `json:"warmup"`
	Seed        uint64  `json:"seed"`
}

// Counts are replies by kind: A, T, B, R and N.
type Counts struct {
	Granted  int64 `json:"granted"`
	Timeout  int64 `json:"timeout"`
	Busy     int64 `json:"busy"`
	Released int64 `json:"released"`
	NotHeld  int64 `json:"not_held"`
}

// Attempts is how many acquires were answered.
func (c Counts) Attempts() int64 { return c.Granted + c.Timeout + c.Busy }

// Replies is how many there are of all kinds: each answers one request.
func (c Counts) Replies() int64 { return c.Attempts() + c.Released + c.NotHeld }

func (c Counts) list() [kinds]int64 {
	return [kinds]int64{granted: c.Granted, timeout: c.Timeout, busy: c.Busy, released: c.Released, notHeld: c.NotHeld}
}

func countsOf(n [kinds]int64) Counts {
	return Counts{Granted: n[granted], Timeout: n[timeout], Busy: n[busy], Released: n[released], NotHeld: n[notHeld]}
}

// kindNames are the keys of Result.Latency, kindOps the replies on the wire.
var (
	kindNames = [kinds]string{granted: "granted", timeout: "timeout", busy: "busy", released: "released", notHeld: "not_held"}
	kindOps   = [kinds]string{granted: "A", timeout: "T", busy: "B", released: "R", notHeld: "N"}
)

// CPU is what the measuring took, in seconds of CPU time.
type CPU struct {
	Generator float64 `json:"generator"` // the threads that send and receive
	Process   float64 `json:"process"`   // all of this process: with a server in it, that one too
}

// Ends are connections that ended before the run did.
type Ends struct {
	Count   int      `json:"count"`
	Reasons []string `json:"reasons,omitempty"` // the first ones
}

// Point is one interval of the run.
type Point struct {
	From    float64 `json:"from"` // since measuring began
	Seconds float64 `json:"seconds"`
	Counts  Counts  `json:"counts"`
	P50     int64   `json:"p50,omitempty"` // latency of grants; 0: there were none
	P99     int64   `json:"p99,omitempty"`
	Max     int64   `json:"max,omitempty"`
}

// Latency is the distribution of one kind of reply.
type Latency struct {
	Count int64  `json:"count"`
	P50   int64  `json:"p50"`
	P90   int64  `json:"p90"`
	P99   int64  `json:"p99"`
	P999  int64  `json:"p99_9"`
	Max   int64  `json:"max"`
	HDR   string `json:"hdr"` // the whole of it: HdrHistogram's compressed V2 format in base64
}

// Histogram decodes the distribution.
func (l *Latency) Histogram() (*hdrhistogram.Histogram, error) {
	return hdrhistogram.Decode([]byte(l.HDR))
}

func latenciesOf(total [kinds]*hdrhistogram.Histogram) map[string]Latency {
	all := make(map[string]Latency)
	for kind, h := range total {
		if h == nil {
			continue
		}
		encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			panic("bench: a histogram that was only added to cannot be encoded: " + err.Error())
		}
		all[kindNames[kind]] = Latency{
			Count: h.TotalCount(), P50: h.ValueAtQuantile(50), P90: h.ValueAtQuantile(90),
			P99: h.ValueAtQuantile(99), P999: h.ValueAtQuantile(99.9), Max: h.Max(), HDR: string(encoded),
		}
	}
	return all
}

func (r *run) newResult() *Result {
	cfg := &r.cfg
	host, _ := os.Hostname()
	return &Result{
		Version: resultVersion, Started: time.Now().UTC().Truncate(time.Second),
		Host: Host{Name: host, OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Setup: Setup{
			Addr: r.addr, TLS: cfg.TLS != nil,
			Connections: cfg.Connections, Pipeline: cfg.Pipeline, Threads: cfg.Threads,
			Keys: cfg.Keys, KeySize: cfg.KeySize, Dist: cfg.Dist,
			Wait: cfg.Wait.Seconds(), Lease: cfg.Lease.Seconds(), Hold: cfg.Hold.Seconds(),
			Rate: cfg.Rate, Duration: cfg.Duration.Seconds(), Ops: cfg.Ops, Warmup: cfg.Warmup.Seconds(), Seed: cfg.Seed,
		},
	}
}

// Violated returns how often the server did what it must not do.
func (r *Result) Violated() (n int64) {
	for _, count := range r.ViolationCounts {
		n += count
	}
	return n
}

// Write writes the result as JSON.
func (r *Result) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// Read reads what Write wrote.
func Read(from io.Reader) (*Result, error) {
	var r Result
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	switch {
	case r.Version == 0:
		return nil, errors.New("not a result: it has no version")
	case r.Version != resultVersion:
		return nil, fmt.Errorf("a result of version %d; this program reads %d", r.Version, resultVersion)
	}
	for name, l := range r.Latency {
		h, err := l.Histogram()
		if err != nil || h.TotalCount() != l.Count {
			return nil, fmt.Errorf("not a result: the distribution of %s is damaged", strings.ToValidUTF8(name, "?"))
		}
	}
	return &r, nil
}
