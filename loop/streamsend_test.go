package loop

import "time"

// settle ends everything and wants the server back as it was.
func (p *program) settle() {
	srv, b := p.j.srv, p.j.srv.budgets
	if p.calm {
		p.jump(0)
	} else {
		p.jump(300 * time.Second)
		p.j.await("every attempt has its outcome", p.outcomes)
	}
	for i, s := range p.streams {
		if s != nil && !s.left {
			end := byte(0)
			if s.tls != nil {
				end = byte(i)
			}
			p.leave(byte(i), 11, end)
		}
	}
	for _, s := range p.all {
		if p.j.fine() {
			p.sync(s)
		}
		s.conn.Close()
		<-s.eof
	}
	p.soon("the connections have come", func() bool { return srv.taken() == p.before+uint64(len(p.all)) })
	p.soon("the connections are gone", func() bool { return srv.live.Load() == 0 })
	p.soon("nobody waits", func() bool { return b.Waiters.Used()+b.Acquires.Used()+b.Releases.Used() == 0 })
	if used, most := b.Keys.Used(), p.held(); used > most {
		p.j.object("%d keys are held, %d can be", used, most)
	}
	p.pass(300 * time.Second)
	if n := b.Keys.Used(); n != 0 {
		p.j.object("in the end %d keys are in use", n)
	}
	for _, l := range srv.loops {
		c := ask(l, func() [3]int { return [3]int{l.sessions, l.deadlines.Len(), len(l.blocked)} })
		if c != [3]int{} {
			p.j.object("in the end loop %d has %d sessions, %d deadlines, %d blocked", l.idx, c[0], c[1], c[2])
		}
	}
}

// outcomes says that all that live streams asked for is decided.
func (p *program) outcomes() bool {
	for _, s := range p.streams {
		if s == nil || s.over {
			continue
		}
		for _, a := range s.attempts {
			if a.outcome == 0 {
				return false
			}
		}
	}
	return true
}

// held is how many keys can be held: those whose token was read and not released,
// and those whose grant a client that left may not have read.
func (p *program) held() int {
	keys := map[string]bool{}
	for token, g := range p.j.grants {
		if !p.j.released[ticket{token, g.key}] {
			keys[g.key] = true
		}
	}
	for _, s := range p.all {
		for _, a := range s.attempts {
			if a.outcome == 0 && s.reset {
				keys[a.key] = true
			}
		}
	}
	return len(keys)
}

func (p *program) soon(what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(end) {
			p.j.object("did not come about: %s", what)
			return
		}
	}
}
