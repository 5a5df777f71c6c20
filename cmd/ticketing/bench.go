package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"ticketing/bench"
)

type benchCmd struct {
	Run     benchRunCmd     `cmd:"" default:"withargs" help:"Load a server and check its answers; run may be left out. See also: ticketing bench compare."`
	Compare benchCompareCmd `cmd:"" help:"Compare two results that --json wrote."`
}

// helpOfDefaults shows, for a command whose first subcommand may be left out,
// that one's help: its flags are what people look for.
func helpOfDefaults(options kong.HelpOptions, ctx *kong.Context) error {
	if node := ctx.Selected(); node != nil && node.DefaultCmd != nil {
		ctx.Path = append(ctx.Path, &kong.Path{Parent: node, Command: node.DefaultCmd})
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// benchRunCmd are the settings of a load test. What has a variable is a setting
// of other client commands too.
type benchRunCmd struct {
	Addr       benchAddresses `env:"TICKETING_ADDR" range:"host:port, or several with commas, none twice" shown:"a server in this process" placeholder:"HOST:PORT,..." help:"The server; of several the first that executes requests, or the one it points to."`
	SecretFile text           `env:"AUTH_SECRET_FILE" range:"a file of secrets, one a line" placeholder:"FILE" help:"Where the secret is, the first one of the file. Instead of it the variable AUTH_SECRET may hold the secret itself."`
	TLSCA      text           `name:"tls-ca" env:"TICKETING_TLS_CA" range:"a file of certificates in PEM" placeholder:"FILE" help:"Turns TLS on: the authorities that may vouch for the server."`
	TLSCert    text           `name:"tls-cert" env:"TICKETING_TLS_CERT" range:"a file of certificates in PEM" placeholder:"FILE" help:"The certificate that the server is shown. Together with its key."`
	TLSKey     text           `name:"tls-key" env:"TICKETING_TLS_KEY" range:"a file with a private key in PEM" placeholder:"FILE" help:"The private key of that certificate."`

	Connections count `default:"16" range:"1..8192" placeholder:"N" help:"Connections to the server."`
	Pipeline    count `default:"16" range:"1..4096" placeholder:"N" help:"Attempts under way on each connection at most."`
	Threads     count `default:"${benchthreads}" shown:"half the usable CPUs, at least 1" range:"1..64" placeholder:"N" help:"Threads that drive the connections."`

	Keys    count `default:"100000" range:"1..4194304" placeholder:"N" help:"How many keys there are."`
	KeySize count `default:"24" range:"1..128" placeholder:"BYTES" help:"Bytes of each key."`
	Dist    word  `default:"uniform" range:"uniform/zipf/single" placeholder:"NAME" help:"How keys are drawn; zipf has the exponent 0.99."`

	Wait  wholeSeconds `env:"TICKETING_WAIT" default:"30s" range:"0s..255s" placeholder:"DURATION" help:"How long an attempt waits in the queue; 0s never queues. Rounded up to whole seconds."`
	Lease wholeSeconds `env:"TICKETING_LEASE" default:"30s" range:"1s..250s" placeholder:"DURATION" help:"The lease of each grant. Rounded up to whole seconds."`
	Hold  span         `default:"0s" range:"0s..24h" placeholder:"DURATION" help:"From each grant to its release."`

	Rate     perSecond `default:"0" range:"0..50000000" placeholder:"N" help:"Open loop: attempts that begin a second, whatever the server does; latency counts from when they were due. 0 is the closed loop."`
	Duration span      `range:"1ms..24h" shown:"10s without --ops" placeholder:"DURATION" help:"How long is measured."`
	Ops      count     `range:"1..1000000000000" placeholder:"N" help:"Attempts to measure, instead of a duration."`
	Warmup   span      `default:"1s" range:"0s..24h" placeholder:"DURATION" help:"Load before that, which is not measured."`

	JSON   text `name:"json" range:"a file" placeholder:"FILE" help:"Write the result to it, as JSON."`
	Report text `range:"a file" placeholder:"FILE" help:"Write a page with plots to it, as HTML."`
}

const (
	benchAddrSetting  = "TICKETING_ADDR (--addr)"
	exitViolations    = 1
	defaultBenchLasts = 10 * time.Second
)

// Run loads a server and prints what it found. A first signal ends the run and
// not the report.
func (c *benchRunCmd) Run(ctx context.Context, p *process) error {
	signal.Ignore(syscall.SIGPIPE)
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	cfg, err := c.config(p.environ)
	if err != nil {
		return err
	}
	outputs, err := c.outputs()
	if err != nil {
		return err
	}
	defer outputs.close()
	inProcess := len(c.Addr) == 0
	if err := benchFiles(cfg, inProcess); err != nil {
		return err
	}
	if inProcess {
		server, err := startBenchServer(ctx, cfg)
		if err != nil {
			return err
		}
		defer server.stop()
		cfg.Addrs = []string{server.addr}
	}
	running, stop := untilFirstSignal(ctx)
	defer stop()
	shown := newBenchProgress(p.stderr)
	cfg.Progress = shown.tell
	result, err := bench.Run(running, *cfg)
	shown.end()
	switch {
	case result == nil && running.Err() != nil:
		return &exitError{exitNoSession, errors.New("ended by a signal before there was a session")}
	case result == nil:
		return benchFailed(err)
	}
	result.Program = "ticketing " + build().Version
	result.Setup.InProcess = inProcess
	return c.tell(p, result, outputs, err)
}

// tell prints and writes the result; failed is what ended the run early.
func (c *benchRunCmd) tell(p *process, result *bench.Result, outputs *benchOutputs, failed error) error {
	if err := result.WriteTable(p.stdout); err != nil {
		return environmentFailed(err)
	}
	if err := outputs.write(result); err != nil {
		return environmentFailed(err)
	}
	n := result.Violated()
	switch {
	case n > 0:
		return &exitError{exitViolations, fmt.Errorf("the server broke the protocol %d times; the first: %s", n, result.Violations[0])}
	case failed != nil:
		return benchFailed(failed)
	case result.Ends.Count > 0:
		return &exitError{exitNoSession, fmt.Errorf("%d of %d connections ended before the run did; the first: %s",
			result.Ends.Count, result.Setup.Connections, result.Ends.Reasons[0])}
	}
	return nil
}

// benchFailed is the error of a run that did not get going, or lost its server.
func benchFailed(err error) error {
	var bad *bench.ConfigError
	switch {
	case errors.As(err, &bad):
		return settingFailed(fmt.Errorf("bench: %w", err))
	case errors.Is(err, bench.ErrNoSession):
		return &exitError{exitNoSession, err}
	}
	return environmentFailed(err)
}

// config makes the configuration of the run, but for the address of a server in
// this process.
func (c *benchRunCmd) config(environ []string) (*bench.Config, error) {
	connect := connectFlags{SecretFile: c.SecretFile, TLSCA: c.TLSCA, TLSCert: c.TLSCert, TLSKey: c.TLSKey}
	secret, err := connect.secretSource(environ).first()
	if err != nil {
		return nil, settingFailed(err)
	}
	encryption, err := connect.tlsConfig()
	if err != nil {
		return nil, settingFailed(err)
	}
	cfg := bench.Defaults()
	cfg.Addrs, cfg.Secret, cfg.TLS = c.Addr, secret, encryption
	cfg.Connections, cfg.Pipeline, cfg.Threads = int(c.Connections), int(c.Pipeline), int(c.Threads)
	cfg.Keys, cfg.KeySize, cfg.Dist = int(c.Keys), int(c.KeySize), bench.Dist(c.Dist)
	cfg.Wait, cfg.Lease, cfg.Hold = c.Wait.whole(), c.Lease.whole(), time.Duration(c.Hold)
	cfg.Rate, cfg.Warmup = float64(c.Rate), time.Duration(c.Warmup)
	cfg.Duration, cfg.Ops = time.Duration(c.Duration), int64(c.Ops)
	switch {
	case cfg.Duration > 0 && cfg.Ops > 0:
		return nil, settingFailed(errors.New("--duration and --ops are both given: allowed is one of them"))
	case cfg.Duration == 0 && cfg.Ops == 0:
		cfg.Duration = defaultBenchLasts
	}
	if len(c.Addr) == 0 {
		if encryption != nil {
			return nil, settingFailed(&settingError{setting: benchAddrSetting, problem: "is not given, and a server in this process does not serve TLS"})
		}
		cfg.Addrs = []string{"in this process"} // for Validate
	}
	if err := cfg.Validate(); err != nil {
		var bad *bench.ConfigError
		if errors.As(err, &bad) && bad.Field == "KeySize" {
			return nil, settingFailed(&settingError{"--key-size", strconv.Quote(bad.Value), bad.Problem})
		}
		return nil, benchFailed(err)
	}
	return &cfg, nil
}

// untilFirstSignal returns a context that the first SIGINT or SIGTERM ends. A
// second one then ends the process, as it always does.
func untilFirstSignal(ctx context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// benchOutputs are the files a result goes to, opened before the run: that one
// cannot be written is not to be found out after an hour.
type benchOutputs struct{ json, report *os.File }

func (c *benchRunCmd) outputs() (o *benchOutputs, err error) {
	o = &benchOutputs{}
	for _, f := range []struct {
		name text
		flag string
		file **os.File
	}{{c.JSON, "--json", &o.json}, {c.Report, "--report", &o.report}} {
		if !f.name.given {
			continue
		}
		if *f.file, err = os.OpenFile(f.name.value, os.O_WRONLY|os.O_CREATE, 0o644); err != nil {
			o.close()
			var cause *os.PathError
			if errors.As(err, &cause) {
				err = cause.Err
			}
			return nil, settingFailed(&settingError{f.flag, strconv.Quote(f.name.value), err.Error() + "; allowed is a file that can be written"})
		}
	}
	return o, nil
}

func (o *benchOutputs) write(result *bench.Result) error {
	for _, f := range []struct {
		file  *os.File
		write func(io.Writer) error
	}{{o.json, result.Write}, {o.report, result.WriteReport}} {
		if f.file == nil {
			continue
		}
		_ = f.file.Truncate(0) // what is no regular file has no length
		if err := f.write(f.file); err != nil {
			return fmt.Errorf("writing %q: %w", f.file.Name(), err)
		}
		if err := f.file.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (o *benchOutputs) close() {
	for _, f := range []*os.File{o.json, o.report} {
		if f != nil {
			f.Close()
		}
	}
}

// benchAddresses may be left out.
type benchAddresses []string

// Decode implements kong.MapperValue.
func (a *benchAddresses) Decode(ctx *kong.DecodeContext) error {
	var given addresses
	err := given.Decode(ctx)
	*a = given.list()
	return err
}

// perSecond is a rate.
type perSecond float64

// Decode implements kong.MapperValue.
func (r *perSecond) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, allowed string) bool {
		low, high := bounds(allowed, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		n, err := strconv.ParseFloat(given, 64)
		*r = perSecond(n)
		return err == nil && !math.IsNaN(n) && low <= n && n <= high
	})
}

// whole is the duration as the protocol carries it.
func (s wholeSeconds) whole() time.Duration {
	return (time.Duration(s) + time.Second - 1).Truncate(time.Second)
}

type benchCompareCmd struct {
	A string `arg:"" name:"a.json" help:"A result, the one that is compared with."`
	B string `arg:"" name:"b.json" help:"Another result."`
}

// Run prints both results side by side.
func (c *benchCompareCmd) Run(_ context.Context, p *process) error {
	var both [2]*bench.Result
	for i, path := range []string{c.A, c.B} {
		file, err := os.Open(path)
		if err != nil {
			return settingFailed(err)
		}
		both[i], err = bench.Read(file)
		file.Close()
		if err != nil {
			return settingFailed(fmt.Errorf("%s: %w", strconv.Quote(path), err))
		}
	}
	comparison := bench.Compare(both[0], both[1])
	comparison.A, comparison.B = c.A, c.B
	if c.A == c.B {
		comparison.B += " (the same file)"
	}
	if err := comparison.WriteTable(p.stdout); err != nil {
		return environmentFailed(err)
	}
	return nil
}
