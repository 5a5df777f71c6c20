package admin

import (
	"net"
	"net/http"
	"sync"
)

// places bounds the connections of the endpoint. A scraper that leaks kept
// connections must not keep the next health check away.
type places struct {
	limit int

	mu   sync.Mutex
	open int
	idle []net.Conn // kept connections without a request, the longest idle first
}

func newPlaces(limit int) *places { return &places{limit: limit} }

// follow is an http.Server's ConnState.
func (p *places) follow(c net.Conn, state http.ConnState) {
	if out := p.note(c, state); out != nil {
		out.Close()
	}
}

// note takes note of c's new state and returns the connection to close for it.
func (p *places) note(c net.Conn, state http.ConnState) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy(c)
	switch state {
	case http.StateNew:
		p.open++
		if p.open <= p.limit {
			return nil
		}
		if len(p.idle) == 0 {
			return c
		}
		out := p.idle[0]
		p.idle = p.idle[1:]
		return out
	case http.StateIdle:
		p.idle = append(p.idle, c)
	case http.StateClosed, http.StateHijacked:
		p.open--
	}
	return nil
}

// busy takes c off the idle ones.
func (p *places) busy(c net.Conn) {
	for i, o := range p.idle {
		if o == c {
			p.idle = append(p.idle[:i:i], p.idle[i+1:]...)
			return
		}
	}
}
