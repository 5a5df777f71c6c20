// Command run breaks a cluster under load and judges what its clients saw, once
// or with each of the known mistakes built in. `make chaos`, `make chaos-broken`
// and `make failover` call it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ticketing/internal/chaos"
)

func main() {
	chaos.Inside()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	duration := flags.Duration("for", 5*time.Minute, "how long things are broken")
	seed := flags.Uint64("seed", rand.Uint64N(1e6), "of what is drawn")
	binary := flags.String("binary", "", "the server; empty: built from this tree")
	dir := flags.String("dir", "", "where runs leave their traces; empty: the directory for temporary files")
	only := flags.String("only", "", "faults, separated by commas; empty: all of "+strings.Join(chaos.Faults(), ", "))
	single := flags.Bool("single", false, "one server and no cluster")
	broken := flags.Bool("broken", false, "run with each known mistake built in, and want each to be found")
	mistake := flags.String("mistake", "", "of the known mistakes only those with this in their name")
	failover := flags.Int("failover", 0, "measure that many rounds of fail-over instead")
	keep := flags.Bool("keep", false, "keep history and logs when nothing was found, too")
	flags.Parse(args)
	if err := chaos.Missing(); err != nil {
		return err
	}
	made, err := os.MkdirTemp(*dir, "ticketing-chaos-")
	if err != nil {
		return err
	}
	if *binary == "" && !*broken {
		*binary = filepath.Join(made, "ticketing")
		build := exec.CommandContext(ctx, "go", "build", "-o", *binary, "ticketing/cmd/ticketing")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building the server: %w", err)
		}
	}
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	cfg := chaos.Config{Binary: *binary, Dir: made, Duration: *duration, Seed: *seed, Single: *single, Only: names}
	switch {
	case *failover > 0:
		err = chaos.Enter(ctx, chaos.Job{Failover: &chaos.Failover{Binary: *binary, Dir: made, Rounds: *failover}}, os.Stdout)
	case *broken:
		err = chaos.FindMistakes(ctx, cfg, *mistake, os.Stdout)
	default:
		err = chaos.Enter(ctx, chaos.Job{Run: &cfg}, os.Stdout)
	}
	if errors.Is(err, chaos.ErrFound) || *keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(made))
}
