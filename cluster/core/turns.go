package core

import (
	"encoding/binary"

	"ticketing/cluster/state"
	"ticketing/shard"
)

// Submit takes a turn. It is confirmed, or a Depose comes first; a turn of an
// epoch that is over is dropped. Its records are read until the next Ready.
func (c *Core) Submit(t shard.Turn) {
	if c.role != Leading || t.Epoch != c.epoch {
		c.counters.Dropped++
		return
	}
	c.turns.queue = append(c.turns.queue, t)
}

// batch is the turns of one pass, or a part of them, on their way: in the order
// of the queue, entries and reads alike.
type batch struct {
	seq  uint64   // of the entry, or of the read index
	read bool     // it is a read index
	done bool     // the entry is applied, the read is proved
	upTo []uint64 // by loop: the last turn in it; 0: none
}

// turns is the queue of one epoch: what was submitted and not proposed, and
// what was proposed and not confirmed.
type turns struct {
	queue []shard.Turn
	ring  []batch // a ring of batches; its length is a power of two
	head  int     // count of batches ever taken out
	tail  int     // count of batches ever put in

	seq      uint64   // of the last entry proposed, since the start of the process
	settled  uint64   // of the last of them that was applied
	reads    uint64   // of the last read index asked for
	proposed []uint64 // by loop: the last turn that was ever in an entry
	confirm  []uint64 // by loop: the last turn confirmed in this pass; 0: none

	entry []byte // reused after each proposal: raft copies what it is given (TestRaftCopiesWhatIsProposed)
}

func (q *turns) init(loops int) {
	q.proposed = make([]uint64, loops)
	q.confirm = make([]uint64, loops)
	q.ring = make([]batch, 64)
	for i := range q.ring {
		q.ring[i].upTo = make([]uint64, loops)
	}
}

func (q *turns) unconfirmed() int { return q.tail - q.head }

func (q *turns) at(i int) *batch { return &q.ring[i&(len(q.ring)-1)] }

// push makes room for a batch at the end.
func (q *turns) push() *batch {
	if q.tail-q.head == len(q.ring) {
		ring := make([]batch, 2*len(q.ring))
		for i := range ring {
			ring[i].upTo = make([]uint64, len(q.proposed))
		}
		for i := q.head; i < q.tail; i++ {
			ring[i&(len(ring)-1)] = *q.at(i)
		}
		q.ring = ring
	}
	b := q.at(q.tail)
	q.tail++
	clear(b.upTo)
	*b = batch{upTo: b.upTo}
	return b
}

// propose makes the queue entries and reads: one entry for all turns of the
// pass, unless it grows beyond maxEntry; one read index if no turn has records.
func (c *Core) propose() {
	q := &c.turns
	if len(q.queue) == 0 || c.role != Leading || c.transfer.to != 0 {
		return
	}
	rest := q.queue
	for len(rest) > 0 {
		n := c.proposeSome(rest)
		if n == 0 {
			c.depose() // the rest of the queue was never proposed
			return
		}
		rest = rest[n:]
	}
	clear(q.queue)
	q.queue = q.queue[:0]
}

// proposeSome makes one batch of the first n turns, n at least 1, or returns 0
// if raft dropped it.
func (c *Core) proposeSome(queue []shard.Turn) (n int) {
	q := &c.turns
	h := state.Header{Proposer: c.id, Boot: c.boot, Seq: q.seq + 1}
	q.entry = state.EncodeBatch(q.entry[:0], h)
	size, reads := len(q.entry), false
	for n < len(queue) && len(q.entry) < maxEntry {
		q.entry = append(q.entry, queue[n].Records...)
		reads = reads || queue[n].Read
		n++
	}
	records := len(q.entry) > size
	if records && c.raft.Propose(q.entry) != nil {
		return 0
	}
	b := q.push()
	for i := range queue[:n] {
		b.upTo[queue[i].Loop] = queue[i].Seq
	}
	switch {
	case records:
		q.seq++
		b.seq = q.seq
		for loop, seq := range b.upTo {
			q.proposed[loop] = max(q.proposed[loop], seq)
		}
		c.counters.Entries++
		c.counters.Turns += uint64(n)
	case reads:
		q.reads++
		b.seq, b.read = q.reads, true
		c.raft.ReadIndex(binary.BigEndian.AppendUint64(nil, q.reads))
		c.counters.Reads++
	default:
		b.read, b.done = true, true // it only keeps its place
		q.takeDone()
	}
	return n
}

// settle takes note that an own entry has been applied. Everything before it is
// confirmed with it: a majority accepted it after all that was decided. It
// reports false if another entry was due.
func (q *turns) settle(seq uint64) bool {
	q.settled = seq
	for q.head < q.tail {
		b := q.at(q.head)
		if !b.read && b.seq != seq {
			return false
		}
		q.take(b)
		if !b.read {
			q.takeDone()
			return true
		}
	}
	return false
}

// prove takes note that this node led after a read index was asked for.
func (q *turns) prove(seq uint64) {
	for i := q.head; i < q.tail; i++ {
		if b := q.at(i); b.read && b.seq == seq {
			b.done = true
		}
	}
	q.takeDone()
}

func (q *turns) takeDone() {
	for q.head < q.tail && q.at(q.head).done {
		q.take(q.at(q.head))
	}
}

// take takes the first batch out and confirms it.
func (q *turns) take(b *batch) {
	for loop, seq := range b.upTo {
		q.confirm[loop] = max(q.confirm[loop], seq)
	}
	q.head++
}

// reset forgets everything that is not confirmed, and returns how many turns
// were never proposed.
func (q *turns) reset() (dropped int) {
	dropped = len(q.queue)
	clear(q.queue)
	q.queue = q.queue[:0]
	q.head = q.tail
	return dropped
}
