// Package floor is a server that does what no lock server can do without, and
// nothing else: gnet, the frames of the protocol parsed and answered, one write
// for each read. It has no table, no timer and no queue, and grants everything.
// What it costs is what gnet and the kernel cost. Command compare runs it as a
// process of its own.
package floor

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ticketing/codec"
)

// readBuffer is the server's own (protocol §7).
const readBuffer = 4096

type handler struct {
	gnet.BuiltinEventEngine
	token uint64
	out   []byte
}

// OnTraffic answers what is whole.
func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	if _, client := c.Context().(*client); !client {
		return gnet.None
	}
	buf, _ := c.Peek(-1)
	var r codec.Request
	used := 0
	h.out = h.out[:0]
	for used < len(buf) {
		n, reason := codec.ParseRequest(buf[used:], &r)
		if reason != codec.ReasonNone {
			return gnet.Close
		}
		if n == 0 {
			break
		}
		switch r.Op {
		case codec.OpAcquire:
			h.token++
			h.out = codec.AppendGranted(h.out, h.token, r.ID, r.Key)
		case codec.OpRelease:
			h.out = codec.AppendReleased(h.out, r.ID, r.Key)
		}
		used += n
	}
	if used > 0 { // Discard(0) would discard everything
		_, _ = c.Discard(used)
	}
	if len(h.out) > 0 {
		_, _ = c.Write(h.out)
	}
	return gnet.None
}

// client marks the connections that are served.
type client struct{}

// Serve prints the line "client HOST:PORT" and serves until the process ends. It
// takes its loop and its connections as the server does: gnet's client as a pool
// of loops, an acceptor of its own.
func Serve() error {
	h := &handler{}
	pool, err := gnet.NewClient(h, gnet.WithNumEventLoop(1), gnet.WithReadBufferCap(readBuffer), gnet.WithLogger(silent{}))
	if err != nil {
		return err
	}
	if err := pool.Start(); err != nil {
		return err
	}
	loop, err := handle(pool)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("client", ln.Addr())
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		enrolled, err := loop.Enroll(gnet.NewContext(context.Background(), &client{}), conn)
		if err != nil {
			return err
		}
		if r := <-enrolled; r.Err != nil {
			return r.Err
		}
	}
}

// handle returns the handle of the one loop, which only a connection on it has.
func handle(pool *gnet.Client) (gnet.EventLoop, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(pair[0]), "control")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	control, err := pool.Enroll(conn)
	if err != nil {
		return nil, err
	}
	return control.EventLoop(), nil
}

// silent drops what gnet would print.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
