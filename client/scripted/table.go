package scripted

import (
	"sync"
	"time"

	"ticketing/codec"
)

// table is the honest server's state: who holds which key, and who waits.
// It is as simple as it can be: one mutex, one timer per lease and per waiter.
type table struct {
	mu     sync.Mutex
	token  uint64
	keys   map[string]*lock
	grants map[string]int // so far, by key
	closed bool
}

type lock struct {
	token   uint64 // 0: nobody holds it
	expiry  *time.Timer
	waiters []*waiter
}

type waiter struct {
	conn    *Conn
	send    func([]byte)
	frame   Frame
	timeout *time.Timer
}

func newTable() *table { return &table{keys: make(map[string]*lock), grants: make(map[string]int)} }

// acquire is protocol §3.
func (t *table) acquire(c *Conn, f Frame, send func([]byte)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	l := t.keys[f.Key]
	switch {
	case l == nil:
		l = &lock{}
		t.keys[f.Key] = l
		t.grant(l, &waiter{conn: c, send: send, frame: f})
	case f.Wait == 0:
		send(codec.AppendTimeout(nil, f.ID, f.Key))
	default:
		w := &waiter{conn: c, send: send, frame: f}
		w.timeout = time.AfterFunc(time.Duration(f.Wait)*time.Second, func() { t.giveUp(l, w) })
		l.waiters = append(l.waiters, w)
	}
}

// grant makes w the holder. The lease starts now (§3.5).
func (t *table) grant(l *lock, w *waiter) {
	t.token++
	t.grants[w.frame.Key]++
	token := t.token
	l.token = token
	l.expiry = time.AfterFunc(time.Duration(w.frame.Lease)*time.Second, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.free(w.frame.Key, token)
	})
	w.send(codec.AppendGranted(nil, token, w.frame.ID, w.frame.Key))
}

// release is protocol §4.
func (t *table) release(f Frame, send func([]byte)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.keys[f.Key]
	if t.closed || l == nil || l.token != f.ID {
		send(codec.AppendNotHeld(nil, f.ID, f.Key))
		return
	}
	send(codec.AppendReleased(nil, f.ID, f.Key))
	t.free(f.Key, f.ID)
}

// free ends the hold of token and hands the key over.
func (t *table) free(key string, token uint64) {
	l := t.keys[key]
	if l == nil || l.token != token {
		return
	}
	l.expiry.Stop()
	if len(l.waiters) == 0 || t.closed {
		delete(t.keys, key)
		return
	}
	next := l.waiters[0]
	l.waiters = l.waiters[1:]
	next.timeout.Stop()
	t.grant(l, next)
}

// giveUp ends a wait (§3.3).
func (t *table) giveUp(l *lock, w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, other := range l.waiters {
		if other == w {
			l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
			w.send(codec.AppendTimeout(nil, w.frame.ID, w.frame.Key))
			return
		}
	}
}

// leave removes a connection's waiters, and nothing that it holds (§3.7).
func (t *table) leave(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.keys {
		kept := l.waiters[:0]
		for _, w := range l.waiters {
			if w.conn == c {
				w.timeout.Stop()
			} else {
				kept = append(kept, w)
			}
		}
		clear(l.waiters[len(kept):])
		l.waiters = kept
	}
}

func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, l := range t.keys {
		l.expiry.Stop()
		for _, w := range l.waiters {
			w.timeout.Stop()
		}
	}
	clear(t.keys)
}

// Held returns the token that holds key at the honest server; 0: nobody.
func (s *Server) Held(key string) uint64 {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if l := s.table.keys[key]; l != nil {
		return l.token
	}
	return 0
}

// Waiting returns how many attempts wait for key at the honest server.
func (s *Server) Waiting(key string) int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if l := s.table.keys[key]; l != nil {
		return len(l.waiters)
	}
	return 0
}

// Granted returns how often the honest server has granted key.
func (s *Server) Granted(key string) int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return s.table.grants[key]
}
