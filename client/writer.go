package client

import (
	"runtime"
	"time"

	"ticketing/codec"
)

// write is the writer's goroutine: it takes what is queued and sends it, many
// frames in one Write.
func (s *session) write() {
	var batch []*call
	var out []byte
	for {
		batch = s.c.take(s, batch[:0])
		if len(batch) == 0 {
			select {
			case <-s.wake:
			case <-s.stop:
				return
			}
			// Whoever woke us is seldom alone: the goroutines that are ready to
			// run get to queue their calls first, and one Write carries them all.
			runtime.Gosched()
			continue
		}
		var ok bool
		out, ok = s.encode(batch, out[:0])
		if !ok {
			s.c.requeue(batch)
			return
		}
		if len(out) > 0 && !s.send(out) {
			return
		}
		clear(batch)
	}
}

// encode moves the calls of batch into the session's tables and appends their
// frames to out. From here on a byte of them may have left. It reports false,
// with nothing changed, when the session has ended.
func (s *session) encode(batch []*call, out []byte) ([]byte, bool) {
	var expired []*call
	s.mu.Lock()
	if s.end.kind != endNone {
		s.mu.Unlock()
		return out, false
	}
	s.batch++
	now, earliest := s.c.now(), never
	for _, k := range batch {
		left := k.deadline.sub(now)
		if left <= 0 {
			if s.c.endUnsent(k, nil) {
				expired = append(expired, k)
			}
			continue
		}
		k.session.Store(s) // before the state: whoever sees callFlying locks this session
		if !k.state.CompareAndSwap(callQueued, callFlying) {
			s.c.free(k) // its caller has left
			continue
		}
		k.batch, k.start = s.batch, len(out)
		if k.kind == kindAcquire {
			out = s.encodeAcquire(k, now, left, out)
		} else {
			k.overdue = k.deadline
			s.addRelease(k)
			out = codec.AppendRelease(out, k.id, k.key)
			if k.kind == kindCompensation {
				s.c.comp.sending(k)
			}
		}
		s.live++
		earliest = min(earliest, k.overdue)
	}
	s.next = min(s.next, earliest)
	s.load.Store(int32(s.live))
	s.mu.Unlock()
	s.c.deliverAll(expired)
	s.c.watch(earliest)
	s.c.counts.frames.Add(uint64(len(batch)))
	return out, true
}

// encodeAcquire carries out §2.3 and §2.4: the frame's wait is what is left of
// the deadline, rounded up, and a wait of 0 stays 0. The verdict is overdue a
// grace after a healthy server's is due (§2.7).
func (s *session) encodeAcquire(k *call, now instant, left time.Duration, out []byte) []byte {
	wait := int64(0)
	if !k.immediate {
		wait = ceilSeconds(left)
	}
	due := now.add(time.Duration(wait)*time.Second + settleGrace)
	k.overdue = max(k.deadline, due)
	s.acquires[k.id] = k
	return codec.AppendAcquire(out, k.id, uint8(wait), k.lease, k.key)
}

// send writes one batch. When that fails it notes from where on not one byte
// can have left (§2.5); the reader then ends the session, once it has read what
// the server said before.
func (s *session) send(out []byte) bool {
	before := s.raw.written.Load()
	n, err := s.conn.Write(out)
	s.c.counts.writes.Add(1)
	if err == nil && n == len(out) {
		return true
	}
	sentTo := min(max(n, 0), len(out))
	switch passed := s.raw.written.Load() - before; {
	case s.conn != s.raw && passed > 0:
		// Under TLS the transport's bytes are those of records, and n says
		// nothing of a record that left in part: all of it may have been sent.
		sentTo = len(out)
	case s.conn != s.raw:
		sentTo = 0
	}
	s.mu.Lock()
	s.failed, s.sentTo, s.writeErr = s.batch, sentTo, brokenError(s.addr, err)
	s.mu.Unlock()
	timer := time.AfterFunc(drainLimit, func() { s.raw.Close() })
	defer timer.Stop()
	<-s.stop
	return false
}
