package lease

import "slices"

// A program is what a test does with a wheel, as bytes: one for what to do, and
// what that reads behind it. Every byte string is a program. Property tests,
// fuzzing and regressions run it alike.
type program []byte

func (p *program) byte() byte {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return b
}

// span reads a length of time: two bytes of digits, one that scales them from
// below a tick to days.
func (p *program) span() Instant {
	digits := Instant(p.byte())<<8 | Instant(p.byte())
	return digits << (p.byte() % 33)
}

// A model is the wheel made dumb: a list of all timers, searched from end to
// end.
type model struct {
	timers []timer
	seen   Instant // the latest now of Expire
	dealt  Instant // Expire has dealt with all that was due until here
}

type timer struct {
	id    Timer
	value uint32
	at    Instant // its deadline
	from  Instant // when Expire may take it: the end of the deadline's tick, or at once
}

func (m *model) add(id Timer, at Instant, value uint32) {
	from := Instant(0)
	if at > m.seen {
		tick := Instant(Tick)
		from = (at + tick - 1) / tick * tick
	}
	m.timers = append(m.timers, timer{id, value, at, from})
}

// first returns when Expire may take the first timer.
func (m *model) first() Instant {
	first := Never
	for _, t := range m.timers {
		first = min(first, t.from)
	}
	return first
}

// A tester is what testing.T, testing.F and rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A machine runs a program on a wheel and a model side by side.
type machine struct {
	t     tester
	p     program
	now   Instant
	wheel *Wheel
	model model
	value uint32
	idle  int // wake-ups at Next that took no timer
	moves int // as many there may be: what the added timers need
}

func run(t tester, p program) {
	t.Helper()
	now := 1 + p.span()
	m := &machine{t: t, p: p, now: now, wheel: NewWheel(now), model: model{seen: now, dealt: now}}
	start := m.wheel.Cap()
	for len(m.p) > 0 {
		switch op := m.p.byte() % 8; op {
		case 0, 1:
			m.add()
		case 2:
			m.cancel()
		case 3: // a command between two turns: it asks, and that is all
			m.now += m.p.span()
			if m.now >= m.wheel.Next() {
				m.expire()
			}
		case 4, 5:
			m.now += m.p.span()
			m.expire()
		case 6, 7:
			m.sleep()
		}
		m.compare()
	}
	for len(m.model.timers) > 0 {
		m.sleep()
	}
	m.compare()
	if m.wheel.Cap() != start {
		t.Fatalf("emptied: memory for %d timers, %d at the start", m.wheel.Cap(), start)
	}
}

func (m *machine) add() {
	at := m.now + m.p.span()
	switch m.p.byte() % 4 {
	case 0:
		at = max(1, m.now-m.p.span()) // it has passed
	case 1:
		at = (at/Instant(Tick) + Instant(m.p.byte()%2)) * Instant(Tick) // on the edge of a tick
	}
	m.value++
	id := m.wheel.Add(at, m.value)
	for _, other := range m.model.timers {
		if other.id == id || id == 0 {
			m.t.Fatalf("Add returned %d, the name of a pending timer", id)
		}
	}
	m.moves += movesFor(at - m.model.dealt)
	m.model.add(id, at, m.value)
}

func (m *machine) cancel() {
	m.wheel.Cancel(0)
	if n := len(m.model.timers); n > 0 {
		i := (int(m.p.byte())<<8 | int(m.p.byte())) % n
		m.wheel.Cancel(m.model.timers[i].id)
		m.model.timers = slices.Delete(m.model.timers, i, i+1)
	}
}

// sleep waits as the loop does: until Next, and takes what is there.
func (m *machine) sleep() {
	next := m.wheel.Next()
	if next == Never {
		return
	}
	m.now = max(m.now, next)
	if m.expire() == 0 {
		if m.idle++; m.idle > m.moves {
			m.t.Fatalf("%d wake-ups that took no timer, at most %d can be needed", m.idle, m.moves)
		}
	}
}

// movesFor returns how often a timer that is so far ahead may have to move
// before it is due.
func movesFor(ahead Instant) int {
	switch {
	case ahead < 0xff<<20: // level 0 has 2^28 ns
		return 0
	case ahead < 0xff<<30: // level 1 has 2^38 ns
		return 1
	default: // level 2 has 2^44 ns, of which the last slot counts no time
		return 2 + int(ahead/(63<<38))
	}
}

// expire takes all that is due, adding and cancelling in between.
func (m *machine) expire() (taken int) {
	m.model.seen = m.now
	for {
		value, ok := m.wheel.Expire(m.now)
		first := m.model.first()
		if !ok {
			if first <= m.now {
				m.t.Fatalf("at %d: a timer of %d stays behind", m.now, first)
			}
			if next := m.wheel.Next(); next <= m.now {
				m.t.Fatalf("at %d: Next = %d with nothing left", m.now, next)
			}
			m.model.dealt = m.now
			return taken
		}
		taken++
		i := slices.IndexFunc(m.model.timers, func(t timer) bool { return t.value == value })
		if i < 0 {
			m.t.Fatalf("at %d: Expire returned %d, which is not pending", m.now, value)
		}
		got := m.model.timers[i]
		if got.at > m.now || got.from > m.now {
			m.t.Fatalf("at %d: a timer of %d is early", m.now, got.at)
		}
		if got.from != first {
			m.t.Fatalf("at %d: a timer of tick %d before one of %d", m.now, got.from/Instant(Tick), first/Instant(Tick))
		}
		m.model.timers = slices.Delete(m.model.timers, i, i+1)
		m.model.dealt = max(m.model.dealt, got.from-Instant(Tick))
		m.compare()
		switch m.p.byte() % 8 {
		case 0:
			if len(m.p) > 0 { // it ends with the program
				m.add()
			}
		case 1:
			m.cancel()
		}
	}
}

// compare checks what the wheel tells about itself.
func (m *machine) compare() {
	if m.wheel.Len() != len(m.model.timers) {
		m.t.Fatalf("Len = %d, want %d", m.wheel.Len(), len(m.model.timers))
	}
	next, first := m.wheel.Next(), m.model.first()
	switch {
	case (next == Never) != (first == Never):
		m.t.Fatalf("Next = %d with %d timers", next, m.wheel.Len())
	case first == 0 && next > m.model.seen:
		m.t.Fatalf("Next = %d is after %d with a timer to take", next, m.model.seen)
	case first != 0 && next > first:
		m.t.Fatalf("Next = %d is after the first timer's %d", next, first)
	}
}
