package cluster

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// MaxStrangers is how many connections to the port for other nodes may be there
// of which nothing is known yet: no certificate, no request. It is more than the
// members open at once, and bounds the descriptors that whoever reaches the port
// can take from clients and from the log.
const MaxStrangers = 64

// strangers are these connections. One too many takes the place of the one that
// has said nothing for the longest: nodes introduce themselves at once, so they get
// in beside somebody who does not. Who has been heard is never closed.
type strangers struct {
	mu    sync.Mutex
	conns []net.Conn // the longest there first
}

// follow is an http.Server's ConnState. With TLS a connection stays new until its
// handshake is done and a request has come.
func (s *strangers) follow(c net.Conn, state http.ConnState) {
	if out := s.note(c, state); out != nil {
		out.Close()
	}
}

// note takes note of c's new state and returns the connection to close for it.
func (s *strangers) note(c net.Conn, state http.ConnState) (out net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		if i := slices.Index(s.conns, c); i >= 0 {
			s.conns = slices.Delete(s.conns, i, i+1)
		}
		return nil
	}
	s.conns = append(s.conns, c)
	if len(s.conns) > MaxStrangers {
		out = s.conns[0]
		s.conns = slices.Delete(s.conns, 0, 1)
	}
	return out
}
