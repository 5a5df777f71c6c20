package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"ticketing/internal/chaos/history"
)

// Config is a run. It travels to the process inside as JSON.
type Config struct {
	Binary   string        // the server
	Dir      string        // made by the caller: disks, logs, and the history
	Duration time.Duration // of the faults; what comes before and after takes a while too
	Seed     uint64        // of what is drawn; what servers do with it differs from run to run
	Single   bool          // one server and no cluster
	Only     []string      // faults; empty: all
	Workers  int           // 0: 48
	Quiet    bool          // no workers at all
	Clients  int           // 0: 6
}

const (
	// recovery is how long a cluster with nothing broken may take until it
	// serves again: an election, and the backoff of a client that had given up.
	recovery = 10 * time.Second
	// endOfLeases is when every key can be had again after load and faults have
	// ended: the longest lease in use, begun anew, and an election.
	endOfLeases = 3*time.Second + recovery
	// busy is what calls may take longer because the machine is slow.
	busy = 3 * time.Second
)

// A run is everything of one run while it goes on.
type run struct {
	cfg     Config
	out     io.Writer
	clock   clock
	cluster *cluster
	watch   *watch
	load    *load
	nemesis *nemesis
	probe   *worker // asks, from an address that no fault touches, whether there is service

	mu     sync.Mutex // of out
	report Report
}

func notified() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// run does the run. It returns ErrFound when there are violations.
func (cfg *Config) run(ctx context.Context, out io.Writer) error {
	if cfg.Workers == 0 {
		cfg.Workers = 48
	}
	if cfg.Quiet {
		cfg.Workers = 0
	}
	if cfg.Clients == 0 {
		cfg.Clients = 6
	}
	r := &run{cfg: *cfg, out: out, clock: clock{time.Now()}}
	r.cluster = newCluster(cfg.Binary, cfg.Dir, bestDisk(cfg.Dir), cfg.Single)
	defer r.cluster.kill()
	r.watch = newWatch(r.cluster.nodes)
	r.watch.onChange = func(leader string, term uint64) { r.say("%s leads in term %d", leader, term) }
	if err := r.prepare(ctx); err != nil {
		return err
	}
	err := r.breakThings(ctx)
	if err == nil {
		err = r.settle()
	}
	r.load.close()
	r.watch.end()
	if err != nil {
		return err
	}
	r.judge()
	if err := r.report.write(r.cfg.Dir, r.load.history(), len(r.report.Violations) > 0); err != nil {
		return err
	}
	fmt.Fprint(r.out, &r.report)
	if len(r.report.Violations) > 0 {
		fmt.Fprintf(r.out, "history and logs are in %s; the seed was %d\n", r.cfg.Dir, r.cfg.Seed)
		return ErrFound
	}
	return nil
}

// say prints a line with the time since the run began.
func (r *run) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%7.1fs  %s\n", time.Since(r.clock.epoch).Seconds(), fmt.Sprintf(format, args...))
}

// prepare starts the servers and makes the clients, and waits for service.
func (r *run) prepare(ctx context.Context) error {
	if err := r.cluster.net.load(); err != nil {
		return err
	}
	if err := r.cluster.start(ctx); err != nil {
		return err
	}
	r.watch.start()
	log, err := os.Create(filepath.Join(r.cfg.Dir, "clients.log"))
	if err != nil {
		return err
	}
	r.load, err = newLoad(r.clock, r.cfg.Seed, r.cluster.clientAddrs(), r.cfg.Clients, r.cfg.Workers, log)
	if err != nil {
		return err
	}
	r.nemesis = newNemesis(r.cluster, r.watch, r.cfg.Seed, r.cfg.Clients, r.cfg.Only, r.say)
	if r.probe, err = r.load.newProbe(r.cluster.clientAddrs()); err != nil {
		return err
	}
	r.served(ctx)
	return nil
}

// breakThings has load and faults until the run's time is over.
func (r *run) breakThings(ctx context.Context) error {
	working, stop := context.WithCancel(context.Background())
	defer stop()
	r.load.start(working)
	r.say("%d workers over %d clients begin; seed %d", r.cfg.Workers, r.cfg.Clients, r.cfg.Seed)
	ctx, done := context.WithTimeout(ctx, r.cfg.Duration)
	defer done()
	progress := make(chan struct{})
	go func() {
		defer close(progress)
		r.progress(ctx)
	}()
	var err error
	for ctx.Err() == nil && err == nil {
		r.nemesis.sleep(ctx, r.nemesis.between(500*time.Millisecond, 1500*time.Millisecond))
		if ctx.Err() != nil {
			break
		}
		if err = r.nemesis.round(ctx); err == nil {
			r.served(context.WithoutCancel(ctx))
			err = r.nemesis.reconcile(context.WithoutCancel(ctx))
		}
	}
	<-progress
	stop()
	r.load.end()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return err
}

// progress prints a line now and then.
func (r *run) progress(ctx context.Context) {
	const every = 5 * time.Second
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		calls := r.load.calls()
		r.say("%d calls, %d/s, %d granted", calls, (calls-last)/uint64(every/time.Second), r.load.counts[history.Granted].Load())
		last = calls
	}
}

// served waits until the cluster, with nothing broken, serves again, and notes
// when that takes too long.
func (r *run) served(ctx context.Context) {
	from := time.Now()
	for time.Since(from) < 3*recovery {
		r.probe.probes++
		if t := r.probe.acquire(ctx, fmt.Sprint("probe", r.probe.probes), 0, 1); t != nil {
			r.probe.give(ctx, t)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(from)
	r.report.Recovery = max(r.report.Recovery, took)
	if took > recovery {
		r.nemesis.problem("with nothing broken there was no service for %v", took.Round(time.Millisecond))
	}
}

// settle waits for the end of all leases, and for the nodes to be alike, and
// ends them.
func (r *run) settle() error {
	ctx := context.Background()
	if err := r.nemesis.revive(ctx); err != nil {
		return err
	}
	r.served(ctx)
	if err := r.nemesis.reconcile(ctx); err != nil {
		return err
	}
	r.say("the load has ended; are all keys free again?")
	if err := r.sweep(ctx); err != nil {
		return err
	}
	if !r.cfg.Single {
		waiting, cancel := context.WithTimeout(ctx, recovery)
		if !r.watch.alike(waiting, r.cluster.current()) {
			r.nemesis.problem("the nodes did not come to the same index within %v, with nothing to do", recovery)
		}
		cancel()
	}
	return each(r.cluster.current(), func(n *node) error {
		if err := n.stop(stopping); err != nil {
			r.nemesis.problem("%s was asked to end: %v", n.name, err)
		}
		return nil
	})
}

// sweep takes every key of the last epoch. A key that cannot be had by then is
// held by nobody: every call has returned, and every lease has ended.
func (r *run) sweep(ctx context.Context) error {
	keys := r.load.lastKeys()
	sweepers, err := r.load.newSweepers(r.cluster.clientAddrs(), len(keys))
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			if t := sweepers[i].acquire(ctx, key, int(endOfLeases/time.Second), 1); t != nil {
				sweepers[i].give(ctx, t)
			}
		})
	}
	all.Wait()
	for i, key := range keys {
		if got := sweepers[i].ops[0]; got.Outcome != history.Granted {
			r.nemesis.problem("%v after everything had ended, %q could still not be had: %v", endOfLeases, key, &got)
		}
	}
	return nil
}

// judge runs the checkers.
func (r *run) judge() {
	ops := r.load.history()
	r.say("%d calls are checked", len(ops))
	rep := &r.report
	rep.Seed, rep.Calls = r.cfg.Seed, len(ops)
	rep.Faults = r.nemesis.done
	rep.Outcomes = map[string]int{}
	for i := range ops {
		rep.Outcomes[ops[i].Outcome.String()]++
	}
	rep.Lateness = history.Lateness(ops)
	rep.Gap = longestGap(ops)
	marks, term, changes := r.watch.summary()
	rep.Term, rep.Elections = term, changes
	rep.Violations = append(rep.Violations, history.Check(ops)...)
	rep.Violations = append(rep.Violations, history.Patience(ops, busy)...)
	rep.Violations = append(rep.Violations, r.nemesis.found...)
	bad, compared := history.Hashes(marks)
	rep.Violations = append(rep.Violations, bad...)
	rep.Compared = compared
	if !r.cfg.Single && compared == 0 {
		r.nemesis.problem("no two nodes gave hashes of their states at one index")
	}
	for _, n := range r.cluster.nodes {
		for _, line := range crashes(n.logFile()) {
			r.nemesis.problem("%s: %s", filepath.Base(n.logFile()), line)
		}
	}
	for _, p := range r.nemesis.problems {
		rep.Violations = append(rep.Violations, history.Violation{Check: "run", What: p})
	}
}
