package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"ticketing/internal/procs"
	"ticketing/loop"
)

// Limits of the endpoint. All are far above what a monitoring system and a few
// open dashboards need, and low enough that the endpoint cannot starve the
// lock server of file descriptors or memory.
const (
	// MaxConnections is how many admin connections are served at once. One
	// more takes the place of the one that has idled longest, and is closed
	// unanswered when none idles. cmd/ticketing reserves file descriptors for
	// them.
	MaxConnections = 64

	maxScrapes      = 4                // concurrent /metrics requests; one more gets 503
	maxHeaderBytes  = 16 << 10         // of one request
	headerTimeout   = 5 * time.Second  // until the request's head is there
	readTimeout     = 10 * time.Second // until the whole request is there
	writeTimeout    = 10 * time.Second // for the answer; profiles prolong it by their own length
	idleTimeout     = 15 * time.Second // of a kept connection between requests
	shutdownTimeout = time.Second      // for requests under way when the process ends
	snapshotTimeout = time.Second      // after it, what the loops published last is shown
)

// Source is the server as this package sees it. *loop.Server is one.
type Source interface {
	// Snapshot returns what the loops last published, with up to queues of the
	// longest queues of each; it never makes a loop wait.
	Snapshot(ctx context.Context, queues int) loop.Snapshot
	// Ready reports whether new work is accepted: not starting, not draining.
	Ready() bool
}

// Build names the program that runs.
type Build struct {
	Version   string
	Commit    string
	GoVersion string
}

// Config is what New needs; Cluster and Processors may be left out.
type Config struct {
	Source     Source
	Cluster    Cluster // nil: a single node
	Build      Build
	Logger     *slog.Logger
	Processors *procs.Governor // told of requests: they shall not wait for an event loop's processor
}

// Validate reports the first missing field.
func (c *Config) Validate() error {
	switch {
	case c.Source == nil:
		return errors.New("admin: no Source")
	case c.Logger == nil:
		return errors.New("admin: no Logger")
	}
	return nil
}

// Server answers the admin endpoint's requests.
type Server struct {
	source  Source
	cluster Cluster // nil: a single node
	build   Build
	log     *slog.Logger
	procs   *procs.Governor
	handler http.Handler
	places  *places
	patience
	panics atomic.Uint64 // recovered from: defects of ours
}

// patience is how long clients may take; tests have more of it.
type patience struct{ header, read, write, idle time.Duration }

// New makes a Server; Serve starts it.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		source: cfg.Source, cluster: cfg.Cluster, build: cfg.Build, log: cfg.Logger, procs: cfg.Processors,
		places: newPlaces(MaxConnections), patience: patience{headerTimeout, readTimeout, writeTimeout, idleTimeout},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.handleHealth)
	mux.HandleFunc("GET /readyz", s.handleReady)
	mux.HandleFunc("GET /status", s.handleStatus)
	mux.HandleFunc("GET /{$}", handlePage)
	mux.Handle("GET /metrics", s.metricsHandler())
	s.addCluster(mux)
	addProfiles(mux)
	s.handler = s.guard(mux)
	return s, nil
}

// Handler returns the endpoint's handler, for tests and for other listeners.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers requests on ln until ctx is done, lets requests under way end
// for a short time, and closes ln. It returns nil after such an end and the
// listener's error otherwise.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests live in a context of their own: a profile under way must end
	// when the process does, not hold it up.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.header,
		ReadTimeout:       s.read,
		WriteTimeout:      s.write,
		IdleTimeout:       s.idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnState:         s.places.follow,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	cancel()
	grace, done := context.WithTimeout(context.Background(), shutdownTimeout)
	defer done()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	<-ended
	return nil
}

// guard gives every answer its common headers and turns a panic of a handler
// into a counted and logged 500.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.procs.Enter()
		defer s.procs.Leave()
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			s.panicked("request "+r.URL.Path, cause)
			http.Error(w, "internal error; see the log", http.StatusInternalServerError)
		}()
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("alive\n"))
}

func (s *Server) handleReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch {
	case !s.source.Ready():
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte("not ready\n"))
	case !s.leaderKnown():
		w.WriteHeader(http.StatusServiceUnavailable)
		w.Write([]byte("not ready: no leader is known\n"))
	default:
		w.Write([]byte("ready\n"))
	}
}

// panicked counts and logs a recovered panic with its stack.
func (s *Server) panicked(where string, cause any) {
	s.panics.Add(1)
	s.log.Error("admin endpoint panicked", "where", where, "cause", cause, "stack", string(debug.Stack()))
}

// snapshot is the one way this package looks at the server.
func (s *Server) snapshot(ctx context.Context, queues int) loop.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	snap := s.source.Snapshot(ctx, queues)
	snap.Ready = snap.Ready && s.leaderKnown()
	return snap
}

// leaderKnown reports whether a client that comes to this node gets somewhere:
// a node without a leader answers nothing but E no_leader.
func (s *Server) leaderKnown() bool { return s.cluster == nil || s.cluster.Status().Leader != "" }
