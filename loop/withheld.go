package loop

import (
	"ticketing/shard"
)

// keptRecordBuffers is how many record buffers a loop keeps for use again.
const keptRecordBuffers = 64

// decideOwn lets our shard decide what our own sessions ask of it. In a cluster
// all requests go through batches, so that every answer can be withheld.
func (l *loop) decideOwn() {
	if b := l.outboxes[l.idx]; b != nil {
		l.outboxes[l.idx] = nil
		l.handleAsks(b)
	}
}

// withhold keeps a batch, whose messages are for the loop to, until the turn in
// which our shard decided it is confirmed.
func (l *loop) withhold(b *batch, to *loop) {
	b.to = to
	r := l.replicated
	for i := range b.msgs {
		k := b.msgs[i].kind
		r.read = r.read || k == timedOut || k == notHeld
	}
	t := &r.open
	if t.first == nil {
		t.first = b
	} else {
		t.last.next = b
	}
	t.last = b
}

// withholdEvents withholds the outcomes of waits.
func (l *loop) withholdEvents() {
	events := l.shard.Events()
	if len(events) == 0 {
		return
	}
	r := l.replicated
	for i := range events {
		e := &events[i]
		dst := e.Session.Loop
		if r.told[dst] == nil {
			r.told[dst] = l.newBatch()
		}
		m := message{kind: kindOf(e.Kind), session: e.Session, id: e.Owner, token: e.Token}
		r.told[dst].add(m, l.shard.EventKey(e))
	}
	for dst, b := range r.told {
		if b != nil {
			l.withhold(b, l.srv.loops[dst])
			r.told[dst] = nil
		}
	}
	l.shard.ClearEvents()
}

// submit ends a turn in which something was decided: it goes to the log.
func (l *loop) submit() {
	r := l.replicated
	if r.open.first == nil && len(l.shard.Records()) == 0 {
		return
	}
	var next []byte
	if n := len(r.spare); n > 0 {
		next = r.spare[n-1]
		r.spare = r.spare[:n-1]
	}
	r.seq++
	t := r.open
	t.seq, t.grants, t.records = r.seq, l.shard.Grants(), l.shard.TakeRecords(next)
	r.turns = append(r.turns, t)
	read := r.read
	r.open, r.read = heldTurn{}, false
	l.srv.cfg.Replica.Submit(shard.Turn{Loop: l.idx, Seq: t.seq, Epoch: r.deciding, Records: t.records, Read: read})
}

// Confirm says that the turns of a loop up to seq are committed, and where they
// asked for it, that this node led after they were submitted. It is cheap and
// may be called from any goroutine.
func (srv *Server) Confirm(loop int, seq uint64) {
	l := srv.loops[loop]
	r := l.replicated
	for {
		old := r.confirmed.Load()
		if seq <= old {
			return
		}
		if r.confirmed.CompareAndSwap(old, seq) {
			break
		}
	}
	if !r.news.Swap(true) {
		srv.wake(l)
	}
}

// takeConfirmed starts the leases that were confirmed and sends the answers home.
//
// The clock is read again: the turn may have begun before the commit, and a
// lease that starts before it ends early.
func (l *loop) takeConfirmed() {
	r := l.replicated
	if !r.news.Load() {
		return
	}
	r.news.Store(false)
	upTo := r.confirmed.Load()
	end := r.head
	for end < len(r.turns) && r.turns[end].seq <= upTo {
		end++
	}
	if end == r.head {
		return
	}
	l.now = l.srv.clock()
	l.shard.Confirm(l.now, r.turns[end-1].grants)
	for ; r.head < end; r.head++ {
		t := &r.turns[r.head]
		for b := t.first; b != nil; {
			next := b.next
			b.next = nil
			l.sendHome(b)
			b = next
		}
		if cap(t.records) > 0 && len(r.spare) < keptRecordBuffers {
			r.spare = append(r.spare, t.records)
		}
		*t = heldTurn{}
	}
	r.compact()
}

// compact gives back the room of the turns that are over.
func (r *replicated) compact() {
	switch left := len(r.turns) - r.head; {
	case left == 0:
		r.turns, r.head = r.turns[:0], 0
	case r.head >= 64 && r.head >= left:
		copy(r.turns, r.turns[r.head:])
		clear(r.turns[left:])
		r.turns, r.head = r.turns[:left], 0
	}
}

// sendHome hands a batch that was withheld to the loop it is for.
func (l *loop) sendHome(b *batch) {
	b.answers = b.acquires+b.releases > 0
	switch {
	case b.to != l:
		b.to.post(b)
	case b.answers:
		l.handleAnswers(b)
	default:
		l.handleAsks(b)
	}
}
