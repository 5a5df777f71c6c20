package shard

import (
	"maps"
	"testing"
	"time"

	"ticketing/lease"
)

// replay is what another node makes of a shard's records: who holds which key.
// It is the judge of the records: each must fit what came before.
type replay struct {
	counter uint64 // the last token
	keys    map[string]Held
}

// apply takes the records in b, which must be whole, and returns how many of
// them are grants.
func (m *replay) apply(f failer, b []byte) (grants int) {
	f.Helper()
	for len(b) > 0 {
		r, n, ok := ParseRecord(b)
		if !ok {
			f.Fatalf("no record: %q", b)
		}
		b = b[n:]
		key := string(r.Key)
		held, isHeld := m.keys[key]
		switch r.Kind {
		case RecordGrant:
			if isHeld || r.Token <= m.counter {
				f.Fatalf("grant of %.4s, token %d, after token %d and with %+v", key, r.Token, m.counter, held)
			}
			m.counter = r.Token
			m.keys[key] = Held{key, r.Token, r.Lease}
			grants++
		default:
			if held.Token != r.Token {
				f.Fatalf("%c of %.4s, token %d, with %+v", r.Kind, key, r.Token, held)
			}
			delete(m.keys, key)
		}
	}
	return grants
}

// log is what a runner keeps of a shard with a journal.
type log struct {
	decided, committed replay
	entries            [][]byte // records of commands that are not in committed, in order
	grants             uint64   // in decided
	confirmed          uint64
}

func newLog(counter uint64) *log {
	return &log{decided: replay{counter, map[string]Held{}}, committed: replay{counter, map[string]Held{}}}
}

// replayRecords takes the records of a command away from the shard, and looks
// whether they say exactly which keys have an entry now.
func (r *runner) replayRecords() {
	r.Helper()
	if records := r.shard.Records(); len(records) > 0 {
		r.log.entries = append(r.log.entries, append([]byte(nil), records...))
		r.log.grants += uint64(r.log.decided.apply(r, records))
		clear(records) // the shard must not need them
	}
	r.shard.ClearRecords()
	if n := r.shard.Grants(); n != r.log.grants {
		r.Fatalf("%d grants recorded, the shard counts %d", r.log.grants, n)
	}
	entries := map[string]Held{}
	s := r.shard
	s.entries.Live(0, 1<<30, func(i uint32) {
		if e := s.entries.At(i); i != s.entries.aside {
			key := string(s.keys.keyOf(e))
			entries[key] = Held{key, e.token, e.leaseSeconds}
		}
	})
	if !maps.Equal(entries, r.log.decided.keys) {
		r.Fatalf("entries %v, by the records %v", entries, r.log.decided.keys)
	}
}

// confirm commits n of the grants, with all that was recorded before the next.
func (r *runner) confirm(n uint64) {
	r.Helper()
	l := r.log
	l.confirmed += n
	for left := n; len(l.entries) > 0; {
		record, size, _ := ParseRecord(l.entries[0])
		if record.Kind == RecordGrant {
			if left == 0 {
				break
			}
			left--
		}
		l.committed.apply(r, l.entries[0][:size])
		if l.entries[0] = l.entries[0][size:]; len(l.entries[0]) == 0 {
			l.entries = l.entries[1:]
		}
	}
	r.shard.Confirm(r.now, l.confirmed)
	r.logf("confirm %d, up to %d", n, l.confirmed)
	r.model.confirm(r.now, int(n), r.events(), r.shard.Keys())
	r.check()
}

// newLead lets the shard forget all and start from what is committed.
func (r *runner) newLead() {
	r.Helper()
	l := r.log
	r.model.abandon(l.decided.keys)
	r.shard.Abandon(r.now)
	r.logf("abandon")
	if n := len(r.shard.Events()) + len(r.shard.Records()) + r.shard.Keys() + r.shard.Waiters(); n != 0 {
		r.Fatalf("%d things left of an abandoned shard", n)
	}
	checkEmpty(r, r.shard)
	l.decided = replay{l.committed.counter, maps.Clone(l.committed.keys)}
	l.entries, l.confirmed = nil, l.grants
	r.shard.budgets.Tokens.Reset(l.committed.counter)
	r.model.last = l.committed.counter
	for _, k := range testKeys {
		if h, ok := l.committed.keys[k.key]; ok {
			r.shard.Load(r.now, []byte(h.Key), k.hash, h.Token, h.Lease)
			r.logf("load %.4s token %d lease %d", h.Key, h.Token, h.Lease)
			r.model.load(r.now, h)
		}
	}
	r.check()
}

// confirm judges what time did, and starts the leases of the first n grants.
func (m *model) confirm(now lease.Instant, n int, events []modelEvent, keys int) {
	m.Helper()
	m.time(now, events, "")
	for _, token := range m.pending[:n] {
		for _, k := range m.keys {
			if k.token == token && k.ends == lease.Never {
				k.ends = now.Add(lease.Seconds(k.lease))
			}
		}
	}
	m.pending = m.pending[n:]
	m.giveKeys(m.keysUsed - keys)
}

// abandon forgets all; entries are the keys whose end was not noticed.
func (m *model) abandon(entries map[string]Held) {
	m.Helper()
	m.left += uint64(m.waiters())
	for key, k := range m.keys {
		if entries[key].Token != k.token {
			m.fullNanos += uint64(lease.Seconds(k.lease))
		}
	}
	m.abandoned += uint64(m.keysUsed)
	m.keys, m.pending = map[string]*modelKey{}, nil
	m.giveWaiters()
	m.giveKeys(m.keysUsed)
}

// load makes a token the holder of a key, whatever the admission says.
func (m *model) load(now lease.Instant, h Held) {
	m.loaded++
	m.keys[h.Key] = &modelKey{token: h.Token, ends: now.Add(lease.Seconds(h.Lease)), lease: h.Lease}
	m.keysUsed++
	m.keysClosed = m.keysClosed || m.keysUsed*10 >= m.maxKeys*9
}

func newJournaled(maxKeys int) *Shard {
	return New(Config{MaxWaiters: 10, Budgets: NewBudgets(maxKeys, 10), Loops: 1, Journal: true}, start)
}

func records(s *Shard) string { return string(s.TakeRecords(nil)) }

// A lease is counted from Confirm, and before it nothing ends it.
func TestLeaseStartsAtConfirm(t *testing.T) {
	s := newJournaled(10)
	expect(t, s, start, attempt("k"), Granted)
	waiting := attempt("k")
	waiting.WaitSeconds = 255
	late := start.Add(200 * time.Second)
	expect(t, s, late, waiting, Parked)
	s.Advance(late)
	if got := outcomes(s); got != "" {
		t.Fatalf("before the grant is committed: %s", got)
	}
	s.Confirm(late, 1)
	end := late.Add(20 * time.Second)
	s.Advance(end - 1)
	if got := outcomes(s); got != "" {
		t.Fatalf("before the lease ends: %s", got)
	}
	records(s)
	s.Advance(end.Add(tick))
	if got := outcomes(s); got != "granted k 0;" {
		t.Fatalf("when the lease has ended: %q", got)
	}
	if got := records(s); got != "x\x00\x00\x00\x00\x00\x00\x00\x01\x01k"+"g\x00\x00\x00\x00\x00\x00\x00\x02\x14\x01k" {
		t.Fatalf("records %q", got)
	}
}

// The sweep leaves alone what is not committed, and records what it frees.
func TestSweepOfUnconfirmed(t *testing.T) {
	s := newJournaled(10)
	expect(t, s, start, attempt("k"), Granted)
	for now := start; now < start.Add(time.Hour); now = now.Add(time.Second) {
		s.Advance(now)
	}
	if s.Keys() != 1 {
		t.Fatal("swept away")
	}
	records(s)
	s.Confirm(start.Add(time.Hour), 1)
	for now := start.Add(time.Hour); s.Keys() != 0; now = s.Next() {
		s.Advance(now)
	}
	if got := records(s); got != "x\x00\x00\x00\x00\x00\x00\x00\x01\x01k" {
		t.Fatalf("records %q", got)
	}
}

// Recovery loads more than the admission of keys lets in, and closes it.
func TestLoadIsNotRefused(t *testing.T) {
	s := newJournaled(10)
	keys := s.budgets.Keys
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		if open := keys.Open(); open != (i < 9) {
			t.Fatalf("%d keys loaded: open %v", i, open)
		}
		a := attempt(key)
		s.Load(start, a.Key, a.Hash, uint64(i+1), 20)
	}
	expect(t, s, start, attempt("new"), BusyKeys)
	releases(t, s, start, "a", 1, true)
	if s.Keys() != 9 || keys.Used() != 9 || len(records(s)) == 0 {
		t.Fatalf("%d keys, %d used", s.Keys(), keys.Used())
	}
}

// In steady state the journal allocates nothing.
func TestJournalAllocatesNothing(t *testing.T) {
	s := newJournaled(1000)
	now, records, a := start, []byte(nil), attempt("k")
	if n := testing.AllocsPerRun(5000, func() {
		now = now.Add(time.Microsecond)
		_, token := s.Acquire(now, a)
		s.Confirm(now, s.Grants())
		s.Release(now, a.Key, a.Hash, token)
		records = s.TakeRecords(records)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
