package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"ticketing/auth"
	"ticketing/lease"
)

// A handshake computes for some hundred microseconds and waits for its client
// for as long as the client likes, up to 10 s. The two are bounded apart: the
// goroutines that wait by MAX_CONNECTIONS, for which their connections count;
// those that compute by the slots of handshakes, which are given up for each
// wait. So a client that says nothing is in nobody's way.
type handshakes struct {
	slots chan struct{}

	mu    sync.Mutex
	conns map[*handshake]struct{} // under way
	ended [EndReasons]uint64
	made  [2]uint64 // full, resumed

	notTLS, failed, timeout, dropped notice
}

// handshake is one that is under way, seen from below: it reads and writes the
// socket for crypto/tls.
type handshake struct {
	srv       *Server
	conn      *net.TCPConn
	until     time.Time
	begun     bool // the first byte is there, and it is TLS
	body      int  // bytes of the record whose header was read last
	computing bool // holds a slot
}

var errNotTLS = errors.New("the first byte is not TLS")

// alertNotTLS is what a client without TLS gets: a fatal alert, protocol_version.
// No reply begins with its first byte, so the client can tell that nothing of
// what it sent was looked at.
var alertNotTLS = []byte{21, 3, 3, 0, 2, 2, 70}

// newHandshakes leaves the loops' processors to the loops.
func newHandshakes(loops int) *handshakes {
	n := max(1, runtime.NumCPU()-loops)
	return &handshakes{slots: make(chan struct{}, n), conns: make(map[*handshake]struct{})}
}

// shake starts the handshake on c, which was accepted at that instant. It is
// known to cut when shake returns.
func (srv *Server) shake(c *net.TCPConn, cfg *tls.Config, accepted lease.Instant) {
	h := &handshake{srv: srv, conn: c, until: srv.start.Add(time.Duration(accepted) + auth.Timeout)}
	_ = c.SetDeadline(h.until)
	srv.handshakes.enter(h)
	go h.run(cfg, accepted)
}

// run makes the handshake and hands the connection on to a loop.
func (h *handshake) run(cfg *tls.Config, accepted lease.Instant) {
	srv := h.srv
	t := &sealed{pipe: pipe{shake: h}}
	t.conn = tls.Server(&t.pipe, cfg)
	err := t.conn.Handshake()
	h.pause()
	srv.handshakes.leave(h)
	if err != nil {
		h.fail(err)
		srv.sessionGone()
		return
	}
	t.pipe.shake = nil
	srv.handshakes.count(t.conn.ConnectionState().DidResume)
	client := h.conn.RemoteAddr()
	if err := srv.enrol(h.conn, t, accepted); err != nil {
		srv.failed.Add(1)
		srv.handshakes.end(EndReset)
		srv.handshakes.dropped.tell(srv.log, "connection dropped: cannot take it in", client, "error", err)
		srv.sessionGone()
	}
}

// read gives crypto/tls a record's header, then the rest of that record, and not
// a byte more: what comes behind the handshake is left for the loop.
func (h *handshake) read(b []byte) (int, error) {
	h.pause()
	n := 0
	if !h.begun {
		if _, err := io.ReadFull(h.conn, b[:1]); err != nil {
			return 0, err
		}
		if b[0] != recordHandshake {
			return 0, errNotTLS
		}
		h.begun, n = true, 1
	}
	most := recordHeader
	if h.body > 0 {
		most = min(h.body, len(b))
	}
	more, err := io.ReadFull(h.conn, b[n:most])
	n += more
	switch {
	case err != nil:
		return n, err
	case h.body > 0:
		h.body -= n
	default:
		h.body = max(0, recordSize(b[:n])-recordHeader)
	}
	return n, h.resume()
}

func (h *handshake) write(b []byte) (int, error) {
	h.pause()
	n, err := h.conn.Write(b)
	if err != nil {
		return n, err
	}
	return n, h.resume()
}

// pause gives up the slot while the handshake waits.
func (h *handshake) pause() {
	if h.computing {
		h.computing = false
		h.srv.cfg.Processors.Leave()
		<-h.srv.handshakes.slots
	}
}

// resume waits for a slot, at most until the handshake's time is up.
func (h *handshake) resume() error {
	slots := h.srv.handshakes.slots
	select {
	case slots <- struct{}{}:
	default:
		patience := time.NewTimer(time.Until(h.until))
		defer patience.Stop()
		select {
		case slots <- struct{}{}:
		case <-patience.C:
			return os.ErrDeadlineExceeded
		}
	}
	h.computing = true
	h.srv.cfg.Processors.Enter()
	return nil
}

// fail closes the connection of a handshake that came to nothing, counts it and
// says why.
func (h *handshake) fail(err error) {
	hs := h.srv.handshakes
	end, log, text := EndTLS, &hs.failed, "TLS handshake failed"
	switch {
	case h.srv.draining.Load():
		end, log = EndShuttingDown, nil
	case errors.Is(err, errNotTLS):
		end, log, text = EndPlaintext, &hs.notTLS, "connection closed: this is a TLS port and the client does not speak TLS"
	case errors.Is(err, os.ErrDeadlineExceeded):
		end, log, text = EndHandshakeTimeout, &hs.timeout, "connection closed: no TLS handshake within 10 s"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		end, log = EndClient, nil
	case isReset(err):
		end, log = EndReset, nil
	}
	hs.end(end)
	if log != nil {
		log.tell(h.srv.log, text, h.conn.RemoteAddr(), "error", err)
	}
	switch end {
	case EndPlaintext:
		_, _ = h.conn.Write(alertNotTLS)
		h.linger()
	case EndTLS: // crypto/tls has sent an alert
		h.linger()
	}
	h.conn.Close()
}

// linger keeps an RST from overtaking the alert, as at the end of a session (§6).
func (h *handshake) linger() {
	_ = h.conn.CloseWrite()
	_ = h.conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, h.conn, lingerBytes)
}

// isReset reports whether the connection is broken, as against what was said on it.
func isReset(err error) bool {
	var broken *os.SyscallError
	return errors.As(err, &broken)
}

func (hs *handshakes) enter(h *handshake) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.conns[h] = struct{}{}
}

func (hs *handshakes) leave(h *handshake) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	delete(hs.conns, h)
}

// end counts a connection that no loop ever had.
func (hs *handshakes) end(reason EndReason) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.ended[reason]++
}

func (hs *handshakes) count(resumed bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if resumed {
		hs.made[1]++
	} else {
		hs.made[0]++
	}
}

func (hs *handshakes) snapshot() *TLSSnapshot {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return &TLSSnapshot{Handshakes: len(hs.conns), Full: hs.made[0], Resumed: hs.made[1], Ended: hs.ended}
}

// cut ends the handshakes that are under way: nothing was promised to anybody.
func (hs *handshakes) cut() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for h := range hs.conns {
		_ = h.conn.SetDeadline(time.Unix(1, 0))
	}
}

// notice logs one kind of event at most once per logInterval, from any goroutine.
type notice struct {
	mu sync.Mutex
	throttle
}

// tell logs the event with the client's address and how many were passed over.
func (n *notice) tell(log *slog.Logger, text string, client net.Addr, args ...any) {
	n.mu.Lock()
	n.every = logInterval
	times, ok := n.allow()
	n.mu.Unlock()
	if ok {
		log.Warn(text, append(args, "client", client.String(), "times", times)...)
	}
}
