package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"ticketing/cluster"
	"ticketing/internal/admin"
	"ticketing/internal/procs"
	"ticketing/loop"
)

// node is a running server with its admin endpoint, from binding the ports to
// the end of the drain.
type node struct {
	process *process
	log     *slog.Logger
	secrets *secretSource
	tls     *tlsSource
	systemd manager

	memberConfig *cluster.Config // nil: a single node

	server *loop.Server
	member *cluster.Node // nil: a single node
}

// readyPoll is how often a server that starts is asked whether it serves.
const readyPoll = time.Millisecond

var errSecondSignal = errors.New("second signal: ended before the drain was done")

// run serves until a signal or ctx ends it. A nil error is a drain that was
// done.
func (n *node) run(ctx context.Context, adminAddr string, cfg loop.Config) error {
	n.systemd = manager{n.log}
	// From here on a broken pipe is an error of a write, not the end of the
	// process: whoever reads the log may go away.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	adminListener, err := n.bindAdmin(ctx, adminAddr)
	if err != nil {
		return err
	}
	if adminListener != nil {
		defer adminListener.Close()
	}
	if n.memberConfig != nil {
		if n.member, err = cluster.Open(*n.memberConfig); err != nil {
			return environmentFailed(err)
		}
		cfg.Replica = n.member
	}
	n.server, err = loop.New(cfg)
	if err != nil {
		return startFailed(cfg.ListenAddr, err)
	}
	endAdmin, err := n.startAdmin(ctx, adminListener, cfg.Processors)
	if err != nil {
		return err
	}
	defer endAdmin()
	return n.serve(ctx, signals, adminListener)
}

// startFailed names the setting when the address could not be bound.
func startFailed(addr string, err error) error {
	var bind *net.OpError
	if errors.As(err, &bind) {
		err = bindError(listenSetting, addr, bind)
	}
	return environmentFailed(err)
}

func bindError(setting, addr string, err error) error {
	var cause *os.SyscallError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return &settingError{setting, strconv.Quote(addr), err.Error() + "; allowed is an address of this machine with a free port"}
}

// bindAdmin binds the admin endpoint, or returns nil when it is off.
func (n *node) bindAdmin(ctx context.Context, given string) (net.Listener, error) {
	if given == "" {
		return nil, nil
	}
	a, err := resolve(ctx, adminSetting, given)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", a.addr)
	if err != nil {
		return nil, environmentFailed(bindError(adminSetting, given, err))
	}
	if !a.loopback {
		n.log.Warn("the admin endpoint asks for no password: keep others from reaching it", "addr", a.addr)
	}
	return ln, nil
}

// startAdmin serves the admin endpoint until the returned func is called.
func (n *node) startAdmin(ctx context.Context, ln net.Listener, processors *procs.Governor) (end func(), err error) {
	if ln == nil {
		return func() {}, nil
	}
	cfg := admin.Config{Source: n.server, Build: build(), Logger: n.log, Processors: processors}
	if n.member != nil {
		cfg.Cluster = memberView{n.member}
	}
	endpoint, err := admin.New(cfg)
	if err != nil {
		return nil, err
	}
	// Not ended with ctx: it is there during the drain.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := endpoint.Serve(ctx, ln); err != nil {
			n.log.Error("the admin endpoint ended; clients are served on", "error", err)
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// serve runs the server and does what signals say.
func (n *node) serve(ctx context.Context, signals <-chan os.Signal, adminListener net.Listener) error {
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	ended := make(chan error, 1)
	go func() { ended <- n.server.Serve(ctx) }()
	if err := n.awaitReady(ended); err != nil {
		return err
	}
	failed, leave := n.takePart(ctx)
	defer leave()
	n.announce(adminListener)
	n.systemd.ready()
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	go n.systemd.watch(watching, n.server.Snapshot)
	return n.await(ctx, drain, signals, ended, failed)
}

// await does what signals say until the server has ended, which drain brings
// about, or the part in the cluster has failed.
func (n *node) await(ctx context.Context, drain func(), signals <-chan os.Signal, ended, failed <-chan error) error {
	draining := false
	var unserved error // of the part in the cluster, because the server stopped first
	for {
		select {
		case err := <-ended:
			switch {
			case err != nil:
				return environmentFailed(fmt.Errorf("serving: %w", err))
			case ctx.Err() == nil && unserved != nil:
				return environmentFailed(unserved)
			}
			n.log.Info("ended")
			return nil
		case err := <-failed: // what is not answered by now never will be
			if errors.Is(err, loop.ErrStopped) {
				unserved = err // a lead that came during the last moment of a drain, or the server says why in a moment
				continue
			}
			return environmentFailed(err)
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				n.reload()
			case draining:
				return environmentFailed(errSecondSignal)
			default:
				draining = true
				n.log.Info("draining", "signal", s.String())
				n.systemd.stopping()
				go func() {
					n.handOver()
					drain()
				}()
			}
		}
	}
}

// awaitReady returns when the server serves, or its error when it ended before.
func (n *node) awaitReady(ended <-chan error) error {
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for !n.server.Ready() {
		select {
		case err := <-ended:
			return environmentFailed(fmt.Errorf("the server ended before it served: %w", err))
		case <-poll.C:
		}
	}
	return nil
}

// announce tells where the node is to be reached: to people in the log, and to
// programs as one line for each listener on stdout.
func (n *node) announce(adminListener net.Listener) {
	b := build()
	n.log.Info("serving", "version", b.Version, "commit", b.Commit, "pid", os.Getpid())
	n.listening("client", n.server.Addr())
	if adminListener != nil {
		n.listening("admin", adminListener.Addr())
	}
	if n.member != nil {
		n.log.Info("taking part in a cluster", "cluster", n.memberConfig.Cluster, "node", n.memberConfig.Node,
			"clients_come_to", n.memberConfig.Client, "data", n.memberConfig.Dir)
	}
}

func (n *node) listening(what string, addr net.Addr) {
	n.log.Info("listening", "what", what, "addr", addr.String())
	if _, err := fmt.Fprintf(n.process.stdout, "%s %s\n", what, addr); err != nil {
		n.log.Debug("stdout was not told", "error", err)
	}
}

// reload reads secrets and certificates again. What does not load changes
// nothing, of it or of the other.
func (n *node) reload() {
	n.systemd.reloading()
	defer n.systemd.ready()
	if n.secrets.file.given {
		n.reloadSecrets()
	}
	if n.tls.cert.given {
		n.reloadTLS()
	}
	if !n.secrets.file.given && !n.tls.cert.given {
		n.log.Info("reload: there is no AUTH_SECRET_FILE and no TLS_CERT_FILE to read again")
	}
}

func (n *node) reloadTLS() {
	encryption, err := n.tls.load()
	if err == nil {
		err = n.server.SetTLS(encryption)
	}
	if err != nil {
		n.log.Error("reload failed: the former certificates stay", "error", err)
		return
	}
	logCertificate(n.log, "reload: certificates were read again", encryption)
}

func (n *node) reloadSecrets() {
	secrets, err := n.secrets.load()
	if err == nil {
		err = n.server.SetSecrets(secrets)
	}
	if err != nil {
		n.log.Error("reload failed: the former secrets stay", "error", err)
		return
	}
	n.log.Info("reload: secrets were read again", "secrets", secrets.Len())
}
