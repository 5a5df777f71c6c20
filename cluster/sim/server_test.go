package sim

import (
	"slices"
	"time"

	"ticketing/cluster/core"
	"ticketing/lease"
	"ticketing/shard"
)

// outcome is what a client is told.
type outcome uint8

const (
	granted outcome = iota + 1
	timedOut
	busy
	released
	notHeld
	notDone // M or E no_leader: it was and will not be executed
	unknown // L, or the end of the connection
)

// request is one acquire or release under way.
type request struct {
	id       uint64
	client   *client
	key      string
	token    uint64 // of a release; 0: an acquire
	wait     uint8
	lease    uint8
	sent     moment
	boundary uint64 // the greatest token known to be granted when it was sent
}

// answer is what a node says to a request.
type answer struct {
	request *request
	outcome outcome
	token   uint64
	at      moment // of the confirmation; a lease lasts from here at least
}

// turn is what a loop decided and withholds.
type turn struct {
	seq, grants uint64
	answers     []*answer
}

// server is what package loop is to the engine, in its simplest form: the same
// shards, the same withholding, one turn for each thing that happens.
type server struct {
	n       *node
	began   moment // of the process: its instant 0
	budgets *shard.Budgets
	shards  []*shard.Shard
	epoch   uint64 // 0: does not lead
	seqs    [loopsPerNode]uint64
	turns   [loopsPerNode][]turn
	parked  map[uint64]*request // by id
	alarm   [loopsPerNode]moment
	holds   map[string]uint64 // for mistakes.expireAnyToken: who holds what
}

func newServer(n *node) *server {
	s := &server{n: n, began: n.w.now, budgets: shard.NewBudgets(1000, 100), parked: map[uint64]*request{}, holds: map[string]uint64{}}
	for range loopsPerNode {
		s.shards = append(s.shards, shard.New(shard.Config{MaxWaiters: 5, Budgets: s.budgets, Loops: 1, Journal: true}, s.now()))
	}
	return s
}

func (s *server) now() lease.Instant { return lease.Instant(s.n.w.now-s.began) + 1 }

// hear is told about the lead by the core.
func (s *server) hear(notice core.Notice) {
	switch notice.Kind {
	case core.NoticeLead:
		s.lead(notice.Epoch)
	case core.NoticeConfirm:
		s.confirm(notice.Loop, notice.Seq)
	case core.NoticeDepose:
		s.depose(notice.Proposed)
	}
}

func (s *server) lead(epoch uint64) {
	m := s.n.core.Machine()
	s.epoch = epoch
	s.budgets.Tokens.Reset(m.Counter())
	for held := range m.Held {
		loop, hash := place(held.Key)
		from := s.now()
		if s.n.w.wrong.leasesGoOn { // as if the lease had begun long ago
			from = from.Add(-lease.Seconds(held.Lease))
		}
		s.shards[loop].Load(from, []byte(held.Key), hash, held.Token, held.Lease)
		s.holds[held.Key] = held.Token
	}
	for loop := range s.shards {
		s.finish(loop, nil)
	}
}

// handle executes a request that has arrived.
func (s *server) handle(r *request) {
	if s.epoch == 0 {
		s.n.w.reply(s.n, &answer{request: r, outcome: notDone})
		return
	}
	loop, hash := place(r.key)
	sh := s.shards[loop]
	if r.token != 0 {
		o := notHeld
		if sh.Release(s.now(), []byte(r.key), hash, r.token) {
			o = released
		}
		s.finish(loop, []*answer{{request: r, outcome: o}})
		return
	}
	o, token := sh.Acquire(s.now(), &shard.Attempt{Key: []byte(r.key), Hash: hash, Owner: r.id,
		Session: shard.Session{Slot: uint32(r.client.index)}, WaitSeconds: r.wait, LeaseSeconds: r.lease})
	switch {
	case o == shard.Parked:
		s.parked[r.id] = r
		s.finish(loop, nil)
	case o == shard.Granted:
		s.holds[r.key] = token
		s.finish(loop, []*answer{{request: r, outcome: granted, token: token}})
	case o == shard.TimedOut:
		s.finish(loop, []*answer{{request: r, outcome: timedOut}})
	default:
		s.finish(loop, []*answer{{request: r, outcome: busy}})
	}
}

// leave takes note that a client's connection has ended.
func (s *server) leave(c *client) {
	if s.epoch == 0 {
		return
	}
	for loop, sh := range s.shards {
		sh.Leave(s.now(), shard.Session{Slot: uint32(c.index)})
		s.finish(loop, nil)
	}
}

// finish ends a turn: what was decided is withheld and submitted.
func (s *server) finish(loop int, answers []*answer) {
	sh := s.shards[loop]
	var events []*answer
	for i := range sh.Events() {
		e := &sh.Events()[i]
		r := s.parked[e.Owner]
		delete(s.parked, e.Owner)
		a := &answer{request: r, outcome: timedOut, token: e.Token}
		switch {
		case e.Kind == shard.Granted:
			a.outcome = granted
			s.holds[r.key] = e.Token
		case e.Kind.Busy():
			a.outcome = busy
		}
		events = append(events, a)
	}
	sh.ClearEvents()
	answers = append(events, answers...)
	records := slices.Clone(sh.TakeRecords(nil))
	s.arm(loop)
	if len(records) == 0 && len(answers) == 0 {
		return
	}
	read := slices.ContainsFunc(answers, func(a *answer) bool { return a.outcome == timedOut || a.outcome == notHeld })
	if wrong := &s.n.w.wrong; wrong.answerBeforeCommit || wrong.readWithoutProof && len(records) == 0 {
		s.say(answers)
		answers = nil
	}
	s.seqs[loop]++
	s.turns[loop] = append(s.turns[loop], turn{s.seqs[loop], sh.Grants(), answers})
	s.n.core.Submit(shard.Turn{Loop: loop, Seq: s.seqs[loop], Epoch: s.epoch, Records: records, Read: read})
}

// arm sets the alarm for what time alone does.
func (s *server) arm(loop int) {
	next := s.shards[loop].Next()
	if next == lease.Never {
		return
	}
	at := max(s.n.w.now.add(time.Microsecond), moment(next-1)+s.began)
	if s.alarm[loop] > s.n.w.now && s.alarm[loop] <= at || at > endsAt.add(-time.Second) {
		return
	}
	s.alarm[loop] = at
	s.n.w.at(at, func() {
		s.n.deliver(func() {
			if s.n.server == s && s.epoch != 0 && s.alarm[loop] == at {
				s.alarm[loop] = 0
				s.shards[loop].Advance(s.now())
				s.finish(loop, nil)
			}
		})
	})
}

func (s *server) confirm(loop int, seq uint64) {
	i := 0
	for ; i < len(s.turns[loop]) && s.turns[loop][i].seq <= seq; i++ {
		t := &s.turns[loop][i]
		s.shards[loop].Confirm(s.now(), t.grants)
		s.say(t.answers)
	}
	s.turns[loop] = s.turns[loop][i:]
	s.arm(loop)
}

// say sends answers to their clients.
func (s *server) say(answers []*answer) {
	for _, a := range answers {
		a.at = s.n.w.now
		s.n.w.reply(s.n, a)
		if a.outcome == granted && s.n.w.wrong.expireAnyToken {
			s.expireLater(a)
		}
	}
}

// expireLater is a mistake: the end of a lease ends whoever has the key.
func (s *server) expireLater(a *answer) {
	s.n.w.after(lease.Seconds(a.request.lease), func() {
		s.n.deliver(func() {
			if s.n.server != s || s.epoch == 0 {
				return
			}
			loop, hash := place(a.request.key)
			s.shards[loop].Release(s.now(), []byte(a.request.key), hash, s.holds[a.request.key])
			s.finish(loop, nil)
		})
	})
}

// depose gives everything up that is not confirmed.
func (s *server) depose(proposed []uint64) {
	s.epoch = 0
	for loop := range s.shards {
		for _, t := range s.turns[loop] {
			for _, a := range t.answers {
				if a.outcome = notDone; t.seq <= proposed[loop] {
					a.outcome = unknown
				}
				s.n.w.reply(s.n, a)
			}
		}
		s.turns[loop] = nil
		s.shards[loop].Abandon(s.now())
		s.shards[loop].ClearEvents()
	}
	for _, id := range slices.Sorted(keysOf(s.parked)) {
		s.n.w.reply(s.n, &answer{request: s.parked[id], outcome: notDone})
	}
	clear(s.parked)
}

func keysOf(m map[uint64]*request) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for id := range m {
			if !yield(id) {
				return
			}
		}
	}
}

// crashed ends all connections.
func (s *server) crashed() {
	s.epoch = 0
	s.turns = [loopsPerNode][]turn{}
	clear(s.parked)
}
