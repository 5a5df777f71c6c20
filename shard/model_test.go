package shard

import (
	"slices"

	"ticketing/lease"
)

// model is the specification's idea of one shard, in maps and slices, with no
// thought for speed. It does not predict: it is told what the shard answered
// and says whether that was right, because timers may be up to a tick late and
// keys that end in one step may end in any order.
type model struct {
	failer
	maxWaiters, maxKeys, maxTotal int

	keys map[string]*modelKey
	last uint64 // token

	journal           bool     // leases start with confirm
	pending           []uint64 // tokens of the grants that are not confirmed
	loaded, abandoned uint64

	attempts                            int
	granted, timedOut, left, parked     uint64
	busy                                [BusyTokens + 1]uint64
	released, notHeld, handovers        uint64
	releasedNanos, waitNanos, fullNanos uint64 // sums: holds released; waits until a grant; leases not released

	keysUsed                  int // entries of the shard when it was last looked at
	keysClosed, waitersClosed bool
}

// modelKey is a key that was granted and not released. If its lease has ended
// it is free, and what stays of it is only what the shard has yet to notice.
type modelKey struct {
	token uint64
	ends  lease.Instant
	lease uint8
	queue []modelWaiter
}

type modelWaiter struct {
	owner   uint64
	session Session
	since   lease.Instant
	ends    lease.Instant
	lease   uint8
}

// queueOf returns the queue of a key, empty if the key is free.
func (m *model) queueOf(key string) []modelWaiter {
	if k := m.keys[key]; k != nil {
		return k.queue
	}
	return nil
}

func (m *model) waiters() (n int) {
	for _, k := range m.keys {
		n += len(k.queue)
	}
	return n
}

// acquire judges the answer to an attempt, and the events that came with it.
func (m *model) acquire(now lease.Instant, a *Attempt, got Outcome, token uint64, events []modelEvent, keys int) {
	m.Helper()
	key := string(a.Key)
	m.time(now, events, key)
	freed := m.keysUsed - keys // what time freed before the attempt was looked at
	if got == Granted {
		freed++
	}
	m.giveKeys(freed)
	m.attempts++

	k := m.keys[key]
	want := Granted
	switch held := k != nil && k.ends > now; {
	case !held && m.keysClosed:
		want = BusyKeys
	case !held && m.last >= lastToken:
		want = BusyTokens
	case !held:
	case a.WaitSeconds == 0:
		want = TimedOut
	case len(k.queue) >= m.maxWaiters:
		want = BusyQueue
	case m.waitersClosed:
		want = BusyWaiters
	default:
		want = Parked
	}
	if got != want {
		m.Fatalf("acquire %.4s: %v, want %v", key, got, want)
	}
	if (got == Granted) != (token != 0) {
		m.Fatalf("%v with token %d", got, token)
	}
	switch got {
	case Granted:
		if k != nil {
			m.fullNanos += uint64(lease.Seconds(k.lease))
		}
		m.grant(now, key, token, a.LeaseSeconds, nil)
		m.keysUsed++
		m.keysClosed = m.keysClosed || m.keysUsed*10 >= m.maxKeys*9
	case Parked:
		m.parked++
		k.queue = append(k.queue, modelWaiter{
			owner: a.Owner, session: a.Session, since: now, ends: now.Add(lease.Seconds(a.WaitSeconds)), lease: a.LeaseSeconds,
		})
		m.waitersClosed = m.waitersClosed || m.waiters()*10 >= m.maxTotal*9
	case TimedOut:
		m.timedOut++
	default:
		m.busy[got]++
		if got == BusyTokens && (m.keysUsed+1)*10 >= m.maxKeys*9 { // was taken and given back
			m.keysClosed = m.keysUsed*4 >= m.maxKeys*3
		}
	}
}

// release judges the answer to a release.
func (m *model) release(now lease.Instant, key string, token uint64, got bool, events []modelEvent, keys int) {
	m.Helper()
	k := m.keys[key]
	want := k != nil && k.token == token && k.ends > now
	if got != want {
		m.Fatalf("release %.4s token %d: %v, want %v", key, token, got, want)
	}
	if want {
		m.released++
		if k.ends != lease.Never { // else its lease has not started
			m.releasedNanos += uint64(now.Sub(k.ends) + lease.Seconds(k.lease))
		}
		k.ends = now // the holder is gone
		k.lease = 0
	} else {
		m.notHeld++
	}
	m.time(now, events, key)
	if k := m.keys[key]; k != nil && k.ends <= now {
		m.fullNanos += uint64(lease.Seconds(k.lease)) // noticed, or lease 0: released
		delete(m.keys, key)
	}
	m.giveKeys(m.keysUsed - keys)
}

// leave takes the waiters of a session away.
func (m *model) leave(now lease.Instant, who Session, events []modelEvent, keys int) {
	m.Helper()
	m.time(now, events, "")
	for _, k := range m.keys {
		k.queue = slices.DeleteFunc(k.queue, func(w modelWaiter) bool {
			if w.session == who {
				m.left++
				return true
			}
			return false
		})
	}
	m.giveWaiters()
	m.giveKeys(m.keysUsed - keys)
}

// advance judges what time alone did.
func (m *model) advance(now lease.Instant, events []modelEvent, keys int) {
	m.Helper()
	m.time(now, events, "")
	m.giveKeys(m.keysUsed - keys)
}

// time judges the events of a command and looks whether one is missing. touched
// is the key the command is about: it is dealt with to the nanosecond.
func (m *model) time(now lease.Instant, events []modelEvent, touched string) {
	m.Helper()
	for _, e := range events {
		m.event(now, e)
	}
	m.giveWaiters()
	const late = lease.Instant(tick) - 1
	for key, k := range m.keys {
		free := k.ends <= now-late || k.ends <= now && key == touched
		for _, w := range k.queue {
			if w.ends <= now-late {
				m.Fatalf("owner %d waits on %.4s past its deadline, by %d ns", w.owner, key, now-w.ends)
			}
			if free {
				m.Fatalf("owner %d waits on %.4s, which is free since %d ns", w.owner, key, now-k.ends)
			}
		}
	}
}

// event judges the outcome of a waiter.
func (m *model) event(now lease.Instant, e modelEvent) {
	m.Helper()
	queue := m.queueOf(e.key)
	at := slices.IndexFunc(queue, func(w modelWaiter) bool { return w.owner == e.Owner })
	if at < 0 || queue[at].session != e.Session {
		m.Fatalf("%v for owner %d of %v, who does not wait on %.4s", e.Kind, e.Owner, e.Session, e.key)
	}
	k, w := m.keys[e.key], queue[at]
	k.queue = slices.Delete(queue, at, at+1)
	switch e.Kind {
	case TimedOut:
		if w.ends > now {
			m.Fatalf("owner %d timed out %d ns early", w.owner, w.ends-now)
		}
		m.timedOut++
	case Granted:
		if k.ends > now {
			m.Fatalf("%.4s granted to owner %d, %d ns before its lease ends", e.key, w.owner, k.ends-now)
		}
		if w.ends <= now {
			m.Fatalf("owner %d granted %d ns after its wait ended", w.owner, now-w.ends)
		}
		for _, ahead := range k.queue[:at] {
			if ahead.ends > now {
				m.Fatalf("owner %d granted before owner %d", w.owner, ahead.owner)
			}
		}
		m.handovers++
		m.fullNanos += uint64(lease.Seconds(k.lease)) // 0 if it was released
		m.waitNanos += uint64(now.Sub(w.since))
		m.grant(now, e.key, e.Token, w.lease, k.queue)
	case BusyTokens:
		if m.last < lastToken || k.ends > now || w.ends <= now {
			m.Fatalf("owner %d was refused a token", w.owner)
		}
		m.busy[BusyTokens]++
	default:
		m.Fatalf("event %v", e.Kind)
	}
	if (e.Kind == Granted) != (e.Token != 0) {
		m.Fatalf("%v with token %d", e.Kind, e.Token)
	}
}

// grant makes a token the holder of a key that is free.
func (m *model) grant(now lease.Instant, key string, token uint64, seconds uint8, queue []modelWaiter) {
	m.Helper()
	if token <= m.last || token > lastToken {
		m.Fatalf("token %d after %d", token, m.last)
	}
	m.last = token
	m.granted++
	ends := now.Add(lease.Seconds(seconds))
	if m.journal {
		ends = lease.Never
		m.pending = append(m.pending, token)
	}
	m.keys[key] = &modelKey{token: token, ends: ends, lease: seconds, queue: queue}
}

// giveKeys takes note that n keys were found to be free.
func (m *model) giveKeys(n int) {
	m.Helper()
	if n < 0 {
		m.Fatalf("%d keys too many have an entry", -n)
	}
	m.keysUsed -= n
	if n > 0 && m.keysUsed*4 < m.maxKeys*3 {
		m.keysClosed = false
	}
}

// giveWaiters takes note that waiters may have gone.
func (m *model) giveWaiters() {
	if m.waiters()*4 < m.maxTotal*3 {
		m.waitersClosed = false
	}
}
