package loop

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ticketing/auth"
	"ticketing/codec"
)

// A program is what several clients do with a server, as bytes. FuzzStreams
// runs what the fuzzer makes up: bytes cut anywhere and interleaved over
// connections, half-closes, resets, loops that stop and go on, and time that
// passes. Everything that comes back is judged (judge_test.go), and in the end
// the server must be as new.
type program struct {
	t        *testing.T
	j        *judge
	secrets  *auth.Secrets
	code     []byte
	calm     bool   // in the end no time passes before all have left
	version  uint16 // of TLS; 0: none
	enrolled uint64 // sessions that loops had before
	streams  [4]*stream
	all      []*stream
	before   uint64   // connections that were taken before
	stalled  []func() // by loop; nil while it runs
	owners   uint64
	syncKeys []string // one of each loop
	trace    []string
}

var (
	programKeys   = []string{"a", "b", "c", "d", "e", "f", string(make([]byte, codec.MaxKey)), "é\r\x00\t"}
	programWaits  = []uint8{0, 1, 0, 250}
	programLeases = []uint8{1, 2, 5, 250}
	programJumps  = []time.Duration{ // a little short of what something takes, and all of it
		0, 900 * time.Millisecond, time.Second, 1900 * time.Millisecond, 4900 * time.Millisecond, 5 * time.Second, 9900 * time.Millisecond, 300 * time.Second,
	}
)

const everything = 1 << 30

// next takes the next byte, or 0 at the end.
func (p *program) next() byte {
	if len(p.code) == 0 {
		return 0
	}
	b := p.code[0]
	p.code = p.code[1:]
	return b
}

// taken is how many connections the acceptor has dealt with.
func (srv *Server) taken() uint64 {
	return srv.accepted.Load() + srv.refused.Load() + srv.failed.Load()
}

// everEnrolled is how many sessions the loops have had.
func (srv *Server) everEnrolled() (n uint64) {
	for _, l := range srv.loops {
		n += ask(l, func() uint64 {
			n := uint64(l.sessions)
			for _, ended := range l.ended {
				n += ended
			}
			return n
		})
	}
	return n
}

func (p *program) run() {
	p.before, p.enrolled = p.j.srv.taken(), p.j.srv.everEnrolled()
	for len(p.code) > 0 && p.j.fine() {
		p.step()
	}
	p.settle()
	srv := p.j.srv
	if n := srv.panics.Load(); n != 0 {
		p.j.object("%d panics", n)
		srv.panics.Store(0)
	}
	if p.j.wrong != "" {
		for _, line := range p.trace {
			p.t.Log(line)
		}
		p.t.Fatal(p.j.wrong)
	}
}

func (j *judge) fine() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wrong == ""
}

func (p *program) logf(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// step does the next thing.
func (p *program) step() {
	op := p.next()
	i := op >> 4 & 3
	s := p.streams[i]
	if s == nil && op&15 < 14 {
		if s = p.dial(i); s == nil {
			return
		}
	}
	switch op &= 15; {
	case op < 3:
		n := min(int(p.next())%64, len(p.code))
		s.pending = append(s.pending, p.code[:n]...)
		p.code = p.code[n:]
	case op < 6:
		b := p.next()
		p.owners++
		s.pending = codec.AppendAcquire(s.pending, p.owners, programWaits[b>>3&3], programLeases[b>>5&3], programKeys[b&7])
	case op < 8:
		p.release(s)
	case op == 8:
		s.pending = append(s.pending, '\n')
	case op < 11:
		n := int(p.next())
		if n == 0 || n > len(s.pending) {
			n = len(s.pending)
		}
		some := everything
		if s.tls != nil && op == 10 {
			some = int(p.next())
		}
		p.logf("%d sends %q, %d bytes at most", i, s.pending[:n], some)
		s.send(n, some)
	case op < 14:
		end := byte(0)
		if s.tls != nil && op == 11 {
			end = p.next() % 4
		}
		p.leave(i, op, end)
	case op == 14:
		p.jump(programJumps[p.next()%8])
	default:
		p.stall(int(p.next()) % len(p.stalled))
	}
}

// dial connects stream i; with a secret the digest is pending, or what is wrong
// instead of it.
func (p *program) dial(i byte) *stream {
	p.logf("%d connects", i)
	if p.version != 0 {
		p.goOn() // the handshake's end is waited for
	}
	s, err := p.j.open(p.secrets, p.version)
	if err != nil {
		p.t.Fatal(err)
	}
	p.streams[i] = s
	p.all = append(p.all, s)
	if p.version != 0 {
		p.soon("a loop has it", func() bool { return p.j.srv.everEnrolled() == p.enrolled+uint64(len(p.all)) })
	}
	if p.secrets == nil {
		return s
	}
	p.goOn()
	if !p.j.await("the challenge comes", func() bool { return s.nonce != nil }) {
		return nil
	}
	switch b := p.next() % 8; b {
	case 0:
	case 1:
		s.pending = append(s.pending, "0123456789012345678901234567890123456789012\n"...)
	case 2:
		s.pending = auth.AppendResponse(s.pending, []byte("secrets"), *s.nonce)
	default:
		s.pending = auth.AppendResponse(s.pending, []byte("secret"), *s.nonce)
	}
	return s
}

// release appends a release of a token that holds, held, or may come to hold.
func (p *program) release(s *stream) {
	b := p.next()
	key := programKeys[b&7]
	p.j.mu.Lock()
	tokens := p.j.keys[key]
	token := p.j.floor + uint64(b>>6) // of nobody yet, or of another key
	if n := len(tokens); n > 0 && b>>3&7 < 5 {
		token = tokens[n-1]
	} else if n > 0 && b>>3&7 < 7 {
		token = tokens[int(b>>6)%n]
	}
	p.j.mu.Unlock()
	s.pending = codec.AppendRelease(s.pending, token, key)
}

// leave ends our side of stream i: half-close, reset or close. A half-close with
// TLS is by FIN, close_notify, both, or a FIN inside close_notify.
func (p *program) leave(i, how, end byte) {
	s := p.streams[i]
	p.streams[i] = nil
	p.logf("%d leaves: %d, %d", i, how, end)
	p.j.mu.Lock()
	s.shut, s.left, s.reset = true, how != 11, how != 11
	p.j.mu.Unlock()
	switch how {
	case 11:
		if end > 0 {
			s.sealEnd()
			s.transmit(s.wire.held() - int(end/3))
		}
		if end != 1 {
			_ = s.conn.CloseWrite()
		}
	case 12:
		_ = s.conn.SetLinger(0)
		s.conn.Close()
	case 13:
		s.conn.Close()
	}
}

// stall stops a loop between two turns, or lets it go on.
func (p *program) stall(i int) {
	if p.stalled[i] != nil {
		p.logf("loop %d goes on", i)
		p.stalled[i]()
		p.stalled[i] = nil
		return
	}
	p.logf("loop %d stops", i)
	p.stalled[i] = stall(p.t, p.j.srv.loops[i])
}

func (p *program) goOn() {
	for i, f := range p.stalled {
		if f != nil {
			p.stall(i)
		}
	}
}

// jump lets time pass once the server has done all it can without.
func (p *program) jump(d time.Duration) {
	p.goOn()
	for _, s := range p.all {
		if s.tls != nil && !s.shut && !s.cut {
			s.transmit(everything)
		}
	}
	p.soon("the connections have come", func() bool { return p.j.srv.taken() == p.before+uint64(len(p.all)) })
	p.soon("all is read", p.allRead)
	for _, s := range p.all {
		if !p.sync(s) {
			return
		}
	}
	p.logf("%v later", d)
	p.pass(d)
	for i, s := range p.streams {
		if s != nil && (s.shaking || s.inside()) && d > 0 {
			p.leave(byte(i), 11, 0) // it is ended for its delay, or by this: the E is the same
		}
	}
}

// allRead says that the server has read all that clients have sent.
func (p *program) allRead() bool {
	for _, l := range p.j.srv.loops {
		unread := ask(l, func() (unread int) {
			for i := range l.slots {
				if s := l.slots[i].session; s != nil && !s.closed {
					n, err := unix.IoctlGetInt(s.conn.Fd(), unix.TIOCINQ)
					if err != nil {
						return 1
					}
					unread += n
				}
			}
			return unread
		})
		if unread > 0 {
			return false
		}
	}
	return true
}

func (p *program) pass(d time.Duration) {
	p.j.srv.ahead.Add(int64(d))
	for _, l := range p.j.srv.loops {
		ask(l, func() bool { l.expire(); return true })
	}
}

// sync waits until the server has judged all of s.
func (p *program) sync(s *stream) bool {
	switch {
	case s.left:
		return true
	case s.shut || s.fault != codec.ReasonNone:
		return p.j.await("the connection ends", func() bool { return s.over }) && s.finish()
	case s.shaking:
		return true
	case !s.inside():
		rest := s.pending
		s.pending = nil
		for _, key := range p.syncKeys {
			p.owners++
			s.pending = codec.AppendRelease(s.pending, 1<<63|p.owners, key)
		}
		s.send(len(s.pending), everything)
		s.pending = rest
	}
	return p.j.await("all that is decided is answered", func() bool { return s.over || s.owed() == "" })
}

// finish closes what has come to its end, and looks whether all is answered
// that had to be.
func (s *stream) finish() bool {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if !s.left {
		if s.fault != codec.ReasonNone && s.said == "" {
			s.j.object("the connection ended without E %v", s.fault)
		}
		if s.fault == codec.ReasonNone && s.said == "" && s.shut && !s.shaking && s.inside() {
			s.j.object("the connection ended inside a frame, without E")
		}
		if open := s.owed(); open != "" && !s.shaking {
			s.j.object("no answer to %s", open)
		}
	}
	s.left = true
	s.conn.Close()
	return s.j.wrong == ""
}
