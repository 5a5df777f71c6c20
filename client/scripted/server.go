package scripted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"ticketing/auth"
	"ticketing/codec"
)

// Frame is one request as it arrived.
type Frame struct {
	Conn  int       // which connection, from 1
	At    time.Time // when its last byte was read
	Op    codec.Op
	Wait  uint8  // seconds; acquire only
	Lease uint8  // seconds; acquire only
	ID    uint64 // owner of an acquire, token of a release
	Key   string
}

// Server is a scripted server. Make one with New.
type Server struct {
	table *table

	mu        sync.Mutex
	cond      sync.Cond
	scripts   [][]Order
	otherwise Order
	secrets   *auth.Secrets
	greeting  []byte
	dials     []dialOrder
	frames    []Frame
	conns     []*Conn
	closed    bool
	wg        sync.WaitGroup
}

// New returns a server that is honest until it is told otherwise.
func New() *Server {
	s := &Server{otherwise: Honest()}
	s.cond.L = &s.mu
	s.table = newTable()
	return s
}

// Script gives orders to the next connection that has none yet: the first
// order is for its first frame, and so on.
func (s *Server) Script(orders ...Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, orders)
}

// Otherwise is what every frame without an order of its own gets, on
// connections made from now on. At first it is Honest.
func (s *Server) Otherwise(o Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.otherwise = o
}

// Secret makes the server demand authentication by one of these secrets, on
// connections made from now on (protocol §8). None: no authentication.
func (s *Server) Secret(secrets ...[]byte) error {
	var all *auth.Secrets
	if len(secrets) > 0 {
		var err error
		if all, err = auth.NewSecrets(secrets...); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = all
	return nil
}

// Greeting is sent first on connections made from now on, whatever it is. With
// a secret it takes the place of the challenge.
func (s *Server) Greeting(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = []byte(line)
}

// dialOrder is what one call of DialContext gets.
type dialOrder struct {
	err  error // fail with it
	hang bool  // until the context is done
}

// ErrRefused is what RefuseDials fails with.
var ErrRefused = errors.New("scripted: connection refused")

// RefuseDials makes the next n calls of DialContext fail.
func (s *Server) RefuseDials(n int) { s.orderDials(n, dialOrder{err: ErrRefused}) }

// HangDials makes the next n calls of DialContext wait for the end of their
// context.
func (s *Server) HangDials(n int) { s.orderDials(n, dialOrder{hang: true}) }

func (s *Server) orderDials(n int, o dialOrder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.dials = append(s.dials, o)
	}
}

// DialContext connects to the server in memory. It has the type of
// client.Config.DialContext.
func (s *Server) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	var o dialOrder
	if len(s.dials) > 0 {
		o, s.dials = s.dials[0], s.dials[1:]
	}
	s.mu.Unlock()
	if o.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if o.err != nil {
		return nil, o.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	if !s.Accept(there) {
		return nil, ErrRefused
	}
	return here, nil
}

// Serve accepts from l until l is closed, and returns l's error.
func (s *Server) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if !s.Accept(conn) {
			return net.ErrClosed
		}
	}
}

// Accept serves a connection that was made in another way, for example the
// server's side of TLS. It takes the connection over and reports false, having
// closed it, when the server is closed.
func (s *Server) Accept(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return false
	}
	c := &Conn{
		srv: s, conn: conn, id: len(s.conns) + 1,
		otherwise: s.otherwise, secrets: s.secrets, greeting: s.greeting,
		wake: make(chan struct{}, 1),
		gone: make(chan struct{}), done: make(chan struct{}),
	}
	if len(s.scripts) > 0 {
		c.script, s.scripts = s.scripts[0], s.scripts[1:]
	}
	for _, o := range append([]Order{c.otherwise}, c.script...) {
		c.exact = c.exact || o.read >= 0
	}
	s.conns = append(s.conns, c)
	s.wg.Go(c.write)
	s.wg.Go(c.read)
	return true
}

// Frames returns every request so far, in the order of arrival. Keep-alives
// are not among them.
func (s *Server) Frames() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Frame(nil), s.frames...)
}

// Await waits until n requests have arrived and returns the n-th. In virtual
// time synctest.Wait and Frames do as well.
func (s *Server) Await(ctx context.Context, n int) (Frame, error) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cond.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.frames) < n {
		if err := ctx.Err(); err != nil {
			return Frame{}, fmt.Errorf("scripted: %d of %d requests: %w", len(s.frames), n, err)
		}
		s.cond.Wait()
	}
	return s.frames[n-1], nil
}

// Conns returns every connection so far, the first one first.
func (s *Server) Conns() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Conn(nil), s.conns...)
}

// Open returns how many connections neither side has ended.
func (s *Server) Open() int {
	n := 0
	for _, c := range s.Conns() {
		if !c.Ended() {
			n++
		}
	}
	return n
}

// Close ends every connection and waits for the server's goroutines.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	conns := append([]*Conn(nil), s.conns...)
	s.mu.Unlock()
	for _, c := range conns {
		c.Cut()
	}
	s.wg.Wait()
	s.table.close()
}

// record notes a request.
func (s *Server) record(f Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, f)
	s.cond.Broadcast()
}

// Network connects to scripted servers by address. One server may have several.
type Network map[string]*Server

// DialContext has the type of client.Config.DialContext. An address that is
// not in the network refuses.
func (n Network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	srv, ok := n[addr]
	if !ok {
		return nil, fmt.Errorf("dial %s: %w", addr, ErrRefused)
	}
	return srv.DialContext(ctx, network, addr)
}

// Close closes every server.
func (n Network) Close() {
	for _, srv := range n {
		srv.Close()
	}
}
