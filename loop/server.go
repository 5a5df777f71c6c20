package loop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/lease"
	"ticketing/shard"
)

// Server is a node: a listener, N loops and what they share.
type Server struct {
	cfg     Config
	log     *slog.Logger
	ln      *net.TCPListener
	client  *gnet.Client
	loops   []*loop
	budgets *shard.Budgets
	secrets atomic.Pointer[auth.Secrets] // nil: no authentication
	tls     atomic.Pointer[tls.Config]   // nil: no TLS
	seed    maphash.Seed                 // of the hashes in the shards' tables

	start         time.Time    // Instant 0
	ahead         atomic.Int64 // ns that tests have let pass beside the real ones; otherwise 0
	monotonicBase int64        // CLOCK_MONOTONIC at Instant 0, ns

	live     atomic.Int64  // connections that count for MAX_CONNECTIONS
	accepted atomic.Uint64 // taken in
	refused  atomic.Uint64 // closed at once
	failed   atomic.Uint64 // accept or enrolment failed
	panics   atomic.Uint64
	churn    atomic.Int64 // sessions begun and ended since memory was last given back
	notices  notices

	handshakes *handshakes // of TLS
	placing    sync.Mutex  // one connection at a time is given its loop
	brokenTLS  notice
	tlsClient  notice // speaks TLS and is not answered in it

	serving  atomic.Bool
	draining atomic.Bool
	idle     chan struct{} // told when a session ends while draining

	stalledLoops atomic.Bool   // some loop has sessions that wait for the release lane
	untidy       chan struct{} // told when memory may be given back
	publishing   sync.Mutex    // one reader of snapshots asks the loops at a time

	// Of a cluster (lead.go).
	changing sync.Mutex    // one change of the lead at a time
	epoch    atomic.Uint64 // of our lead; 0: another's, or nobody's
	deposed  chan struct{} // closed when every loop has given up the lead before; nil: there was none
	givingUp atomic.Int32  // loops that have not yet
	stopping sync.RWMutex  // held while somebody else wakes a loop
	stopped  chan struct{} // closed: the loops stop, nobody may wake them
	broken   atomic.Bool   // a shard is in doubt: nothing more is decided or said (defect.go)
	defect   chan error    // why
}

// New checks the configuration, starts the loops and binds the port. It does
// not accept yet: Serve does. The error names the setting or the address.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	srv := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		budgets: shard.NewBudgets(cfg.MaxKeys, cfg.MaxTotalWaiters),
		seed:    maphash.MakeSeed(),
		idle:    make(chan struct{}, 1),
		untidy:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
		defect:  make(chan error, 1),

		handshakes: newHandshakes(cfg.Loops),
	}
	if srv.log == nil {
		srv.log = slog.New(slog.DiscardHandler)
	}
	srv.secrets.Store(cfg.Secrets)
	encryption, err := prepareTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	srv.tls.Store(encryption)
	var ts unix.Timespec
	srv.start = time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return nil, fmt.Errorf("reading the monotonic clock: %w", err)
	}
	// Read after start: an alarm is a hair late and never early.
	srv.monotonicBase = ts.Nano() - 1

	ln, err := listen(cfg.ListenAddr)
	if err != nil {
		return nil, err
	}
	srv.ln = ln
	if err := srv.startLoops(); err != nil {
		ln.Close()
		srv.stopLoops()
		return nil, err
	}
	return srv, nil
}

// clock reads the monotonic clock: once a turn.
func (srv *Server) clock() lease.Instant {
	return lease.Instant(time.Since(srv.start)) + 1 + lease.Instant(srv.ahead.Load())
}

// Addr is where clients connect.
func (srv *Server) Addr() net.Addr { return srv.ln.Addr() }

// Ready reports whether the server accepts and serves: not before Serve, not
// while it drains.
func (srv *Server) Ready() bool { return srv.serving.Load() && !srv.draining.Load() }

// SetSecrets replaces the accepted secrets (rotation, §8). Sessions that are
// open live on. Authentication cannot be switched on or off while serving.
func (srv *Server) SetSecrets(s *auth.Secrets) error {
	if (s == nil) != (srv.secrets.Load() == nil) {
		return errors.New("authentication cannot be switched on or off while serving")
	}
	srv.secrets.Store(s)
	return nil
}

// startLoops starts gnet's event loops and binds loop i to shard i: at boot each
// control connection goes to the event loop with the fewest, which is the next.
func (srv *Server) startLoops() error {
	cli, err := gnet.NewClient(handler{srv},
		gnet.WithNumEventLoop(srv.cfg.Loops),
		gnet.WithReadBufferCap(readBuffer),
		gnet.WithLogger(gnetLogger{srv.log}),
	)
	if err != nil {
		return fmt.Errorf("event loops: %w", err)
	}
	srv.client = cli
	srv.loops = make([]*loop, srv.cfg.Loops)
	for i := range srv.loops {
		l, err := srv.newLoop(i)
		if err != nil {
			return fmt.Errorf("event loop %d: %w", i, err)
		}
		srv.loops[i] = l
	}
	if err := cli.Start(); err != nil {
		srv.client = nil
		return fmt.Errorf("event loops: %w", err)
	}
	attentions := make(map[int]*loop, len(srv.loops)) // by gnet's descriptor of the eventfd
	for _, l := range srv.loops {
		c, err := enrolControl(cli, nil, l.attention, &control{loop: l})
		if err != nil {
			return fmt.Errorf("event loop %d: %w", l.idx, err)
		}
		l.engine = c.EventLoop()
		attentions[c.Fd()] = l
	}
	for fd, epoll := range findEpolls() {
		if l := attentions[fd]; l != nil {
			l.epoll = epoll
			delete(attentions, fd)
		}
	}
	for _, l := range attentions {
		srv.log.Warn("epoll instance not found; reading from blocked clients is bounded, not paused", "loop", l.idx)
	}
	for _, l := range srv.loops {
		if _, err := enrolControl(cli, l.engine, l.alarm, &control{loop: l, timer: true}); err != nil {
			return fmt.Errorf("event loop %d: %w", l.idx, err)
		}
	}
	return nil
}

func (srv *Server) newLoop(i int) (*loop, error) {
	now := srv.clock()
	l := &loop{
		srv:       srv,
		idx:       i,
		direct:    i,
		now:       now,
		owned:     owned{holding: true, shared: srv.cfg.Loops > 1 && srv.cfg.Replica == nil, armed: lease.Never},
		epoll:     -1,
		deadlines: lease.NewWheel(now),
		outboxes:  make([]*batch, srv.cfg.Loops),
		attention: descriptor{-1},
		alarm:     descriptor{-1},
		reserve:   reserve{null: -1},
		shard: shard.New(shard.Config{
			MaxWaiters: srv.cfg.MaxWaiters, Budgets: srv.budgets, Loops: srv.cfg.Loops,
			Journal: srv.cfg.Replica != nil,
		}, now),
	}
	if srv.tls.Load() != nil {
		l.clear = make([]byte, 0, clearBuffer)
	}
	l.busy.Store(true)
	if srv.cfg.Replica != nil {
		l.replicated, l.direct = newReplicated(srv.cfg.Loops), -1
	}
	srv.loops[i] = l
	var err error
	if l.attention, err = newEventfd(); err != nil {
		return nil, err
	}
	if l.alarm, err = newTimerfd(); err != nil {
		return nil, err
	}
	if l.reserve, err = newReserve(); err != nil {
		return nil, err
	}
	return l, nil
}

// stopLoops ends the event loops. What they still hold is closed by gnet. A loop
// that does not end in time is left behind: the process is about to end.
func (srv *Server) stopLoops() {
	srv.refuseOrders()
	if srv.client != nil {
		stopped := make(chan error, 1)
		go func() { stopped <- srv.client.Stop() }()
		select {
		case err := <-stopped:
			if err != nil {
				srv.log.Warn("stopping the event loops", "error", err)
			}
		case <-time.After(stopTimeout):
			srv.log.Error("an event loop does not end; left behind", "waited", stopTimeout)
			return
		}
	}
	for _, l := range srv.loops {
		if l == nil {
			continue
		}
		for _, d := range []descriptor{l.attention, l.alarm} {
			if d.fd >= 0 {
				d.close()
			}
		}
		l.reserve.close()
	}
}

// Serve accepts connections until ctx is done, then drains: it stops accepting,
// every session gets what is decided for it and E shutting_down, and Serve
// returns when all have ended or DrainTimeout has passed. The error is that of
// the listener, or in a cluster a defect that ends the node; a drain that was cut
// short is logged and is no error.
func (srv *Server) Serve(ctx context.Context) error {
	tidied := make(chan struct{})
	tidyCtx, stopTidying := context.WithCancel(context.Background())
	go func() { defer close(tidied); srv.tidyMemory(tidyCtx) }()

	acceptErr := make(chan error, 1)
	go func() { acceptErr <- srv.accept() }()
	srv.serving.Store(true)

	var err error
	select {
	case <-ctx.Done():
		srv.draining.Store(true)
		srv.ln.Close()
		<-acceptErr
		err = srv.drain()
	case err = <-acceptErr:
		srv.draining.Store(true)
		srv.ln.Close()
	case err = <-srv.defect:
		srv.draining.Store(true)
		srv.ln.Close()
		<-acceptErr
	}
	stopTidying()
	<-tidied
	srv.stopLoops()
	srv.serving.Store(false)
	return err
}

// drain ends every session with E shutting_down and waits for their ends. The
// error is a defect that came before.
func (srv *Server) drain() error {
	srv.cfg.Processors.Enter()
	defer srv.cfg.Processors.Leave()
	srv.handshakes.cut()
	for _, l := range srv.loops {
		l.command(func() { l.startDrain() })
	}
	deadline := time.NewTimer(srv.cfg.DrainTimeout)
	defer deadline.Stop()
	for srv.live.Load() > 0 {
		select {
		case <-srv.idle:
		case err := <-srv.defect:
			return err
		case <-deadline.C:
			if n := srv.live.Load(); n > 0 {
				srv.log.Warn("drain timeout: connections are cut", "connections", n, "timeout", srv.cfg.DrainTimeout)
			}
			return nil
		}
	}
	return nil
}

// startDrain tells every session of l that the node is shutting down (§6).
func (l *loop) startDrain() {
	l.draining = true
	for i := range l.slots {
		if s := l.slots[i].session; s != nil {
			l.fail(s, reasonShuttingDown, EndShuttingDown)
		}
	}
}

// sessionGone is called once for each connection that was counted in.
func (srv *Server) sessionGone() {
	srv.live.Add(-1)
	srv.stirMemory(1)
	if srv.draining.Load() {
		select {
		case srv.idle <- struct{}{}:
		default:
		}
	}
}
