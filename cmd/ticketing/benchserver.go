package main

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/bench"
	"ticketing/loop"
)

// Descriptors of a load test beside its connections: of the generator's threads,
// and those that are open for a moment or for the process itself.
const (
	benchFilesPerThread = 2
	benchFilesForItself = 64
)

// benchServer is a server in this process, with the defaults of serve.
type benchServer struct {
	addr  string
	drain context.CancelFunc
	ended chan error
}

func startBenchServer(ctx context.Context, cfg *bench.Config) (*benchServer, error) {
	settings := loop.Config{
		ListenAddr: "127.0.0.1:0", Loops: defaultLoops(),
		MaxConnections: max(loop.DefaultConnections, cfg.Connections),
		MaxWaiters:     loop.DefaultWaiters, MaxTotalWaiters: loop.DefaultTotalWaiters, MaxKeys: loop.DefaultKeys,
		DrainTimeout: loop.DefaultDrainTimeout,
	}
	if cfg.Secret != nil {
		secrets, err := auth.NewSecrets(cfg.Secret)
		if err != nil {
			return nil, settingFailed(err)
		}
		settings.Secrets = secrets
	}
	server, err := loop.New(settings)
	if err != nil {
		return nil, environmentFailed(fmt.Errorf("starting a server in this process: %w", err))
	}
	// Not ended with ctx: it is there until the load has ended.
	serving, drain := context.WithCancel(context.WithoutCancel(ctx))
	s := &benchServer{addr: server.Addr().String(), drain: drain, ended: make(chan error, 1)}
	go func() { s.ended <- server.Serve(serving) }()
	return s, nil
}

func (s *benchServer) stop() {
	s.drain()
	<-s.ended
}

// benchFiles refuses a run that does not fit under the limit of open files,
// which Go has raised as far as it goes.
func benchFiles(cfg *bench.Config, inProcess bool) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return environmentFailed(fmt.Errorf("reading RLIMIT_NOFILE: %w", err))
	}
	need := uint64(cfg.Connections) + uint64(cfg.Threads)*benchFilesPerThread + benchFilesForItself
	if cfg.TLS != nil {
		need += 2 * uint64(cfg.Connections) // the two ends of a pair of sockets stand between
	}
	if inProcess {
		need += filesNeeded(cfg.Connections, defaultLoops(), 0)
	}
	if limit.Cur < need {
		return environmentFailed(&settingError{"--connections", strconv.Quote(strconv.Itoa(cfg.Connections)),
			fmt.Sprintf("needs %d open files and RLIMIT_NOFILE allows %d", need, limit.Cur)})
	}
	return nil
}
