package loop

import (
	"hash/maphash"

	"github.com/cespare/xxhash/v2"

	"ticketing/auth"
	"ticketing/codec"
	"ticketing/shard"
)

// The reasons that are found here and not by the codec.
const reasonBadRequest, reasonShuttingDown = codec.ReasonBadRequest, codec.ReasonShuttingDown

// handleOpen starts the life of s.
func (l *loop) handleOpen(s *session) {
	defer l.guard()
	l.attach(s)
	s.opened = true
	switch {
	case l.draining:
		l.fail(s, codec.ReasonShuttingDown, EndShuttingDown)
	case s.phase == handshaking:
		b := l.room(s)
		b.B = auth.AppendChallenge(b.B, s.nonce)
		s.replies-- // a challenge is no reply
		l.setDeadline(s, s.accepted.Add(auth.Timeout))
	}
}

// handleInput parses what has arrived for s, in place.
func (l *loop) handleInput(s *session) {
	defer l.guard()
	if s.closed {
		return
	}
	if s.blocked {
		l.holdBack(s)
		return
	}
	if s.sealed != nil {
		l.handleSealedInput(s)
		return
	}
	buf, err := s.conn.Peek(-1)
	if err != nil || len(buf) == 0 {
		return
	}
	n := l.consume(s, buf)
	if s.closed {
		return
	}
	if n > 0 { // Discard(0) would discard everything
		_, _ = s.conn.Discard(n)
	}
	if s.phase == open {
		l.watchProgress(s, n > 0, n < len(buf))
	}
}

// consume takes from buf what is whole and returns how many bytes that is.
func (l *loop) consume(s *session, buf []byte) int {
	n := 0
	if s.phase == handshaking {
		n = l.handleHandshake(s, buf)
	}
	switch s.phase {
	case open:
		return n + l.handleFrames(s, buf[n:])
	case failing:
		return len(buf)
	case lingering:
		s.thrown += uint32(len(buf))
		if s.thrown > lingerBytes {
			l.close(s, s.end)
		}
		return len(buf)
	}
	return n
}

// watchProgress keeps the 5 s of a begun frame (§1.6). They run from the turn in
// which its first byte was seen and are not extended by its later bytes.
func (l *loop) watchProgress(s *session, consumed, begun bool) {
	if !begun || s.blocked {
		l.clearDeadline(s)
		return
	}
	if consumed || s.timer == 0 {
		l.setDeadline(s, l.now.Add(progressTimeout))
	}
}

// handleHandshake judges the client's one line (§8) and returns its length.
func (l *loop) handleHandshake(s *session, buf []byte) int {
	h := auth.Handshake{Nonce: s.nonce}
	n, verdict := h.Step(buf, l.srv.secrets.Load())
	switch verdict {
	case auth.Accepted:
		s.phase = open
		l.clearDeadline(s)
		return n
	case auth.Denied:
		l.fail(s, codec.ReasonAuthFailed, EndAuthFailed)
	case auth.TooLong:
		l.fail(s, codec.ReasonLineTooLong, EndLineTooLong)
	case auth.NeedMore:
		if !speaksTLS(s, buf) {
			return 0
		}
		l.fail(s, codec.ReasonAuthFailed, EndAuthFailed) // its line never ends
	}
	l.maybeHintTLS(s, buf)
	return 0
}

// handleFrames serves the whole frames in buf and returns their length. It
// stops early when the session is blocked, fails or ends.
func (l *loop) handleFrames(s *session, buf []byte) int {
	if !l.leads() {
		return l.redirect(s, buf)
	}
	off := 0
	for off < len(buf) {
		some, reason := l.parseSome(buf[off:])
		for i := range some {
			r := &some[i]
			switch r.Op {
			case codec.OpAcquire:
				l.handleAcquire(s, r)
			case codec.OpRelease:
				if !l.handleRelease(s, r) {
					return off
				}
			}
			off += r.size
			if s.closed && s.tail == nil {
				return off
			}
		}
		if reason != codec.ReasonNone {
			l.maybeHintTLS(s, buf[off:])
			l.fail(s, reason, endOf(reason))
			return len(buf)
		}
		if len(some) < parsedTogether {
			break
		}
	}
	return off
}

// request is a parsed frame and where its key belongs.
type request struct {
	codec.Request
	size int // of the frame
	dst  int
	hash uint64
}

// parsedTogether is how many frames are parsed before the first of them is
// served: what a processor can fetch from memory at a time.
const parsedTogether = 12

// parseSome parses whole frames at the front of buf, at most parsedTogether, and
// returns them with what is wrong behind them. With very many keys the slots that
// they need are far away in memory: asked for in one go, all come in the time of
// one.
func (l *loop) parseSome(buf []byte) ([]request, codec.Reason) {
	some, off := l.parsed[:0], 0
	for off < len(buf) && len(some) < parsedTogether {
		some = some[:len(some)+1]
		r := &some[len(some)-1]
		n, reason := codec.ParseRequest(buf[off:], &r.Request)
		if n == 0 || reason != codec.ReasonNone {
			l.fetch(some[:len(some)-1])
			return some[:len(some)-1], reason
		}
		if r.size = n; r.Key != nil {
			r.dst, r.hash = l.place(r.Key)
		}
		off += n
	}
	l.fetch(some)
	return some, codec.ReasonNone
}

// fetch asks for the slots of our keys among several requests.
func (l *loop) fetch(some []request) {
	if len(some) < 2 {
		return
	}
	sum := uint64(0)
	for i := range some {
		if r := &some[i]; r.dst == l.direct && r.Key != nil {
			sum ^= l.own().Fetch(r.hash)
		}
	}
	l.fetched = sum
}

// place returns the loop whose shard a key belongs to, and the hash it has there.
//
// The loop is chosen by xxhash: the same in every process. The table's hash has
// a seed of this process, so that no client can choose keys that collide and
// make each other slow.
func (l *loop) place(key []byte) (dst int, hash uint64) {
	if n := uint64(len(l.outboxes)); n > 1 {
		dst = int((xxhash.Sum64(key) >> 32) * n >> 32)
	}
	return dst, maphash.Bytes(l.srv.seed, key)
}

// handleAcquire carries out §3, here or in the shard the key belongs to.
func (l *loop) handleAcquire(s *session, r *request) {
	budget, dst, hash := l.srv.budgets.Acquires, r.dst, r.hash
	if dst == l.direct {
		if !budget.Open() {
			l.refuseInFlight(s, r)
			return
		}
		a := shard.Attempt{
			Key: r.Key, Hash: hash, Owner: r.ID, Session: s.id,
			WaitSeconds: r.Wait, LeaseSeconds: r.Lease,
		}
		outcome, token := l.own().Acquire(l.now, &a)
		switch {
		case outcome == shard.Granted:
			l.replyGranted(s, token, r.ID, r.Key)
		case outcome == shard.TimedOut:
			l.replyTimeout(s, r.ID, r.Key)
		case outcome.Busy():
			l.replyBusy(s, r.ID, r.Key)
		}
		return
	}
	if !budget.Take() {
		l.refuseInFlight(s, r)
		return
	}
	b := l.outboxFor(dst)
	b.acquires++
	b.add(message{kind: askAcquire, session: s.id, id: r.ID, hash: hash, wait: r.Wait, lease: r.Lease}, r.Key)
	s.abroad++
	s.waitsAbroad = s.waitsAbroad || r.Wait > 0
}

// refuseInFlight answers B because too many acquires are in flight (§7).
func (l *loop) refuseInFlight(s *session, r *request) {
	l.busyInFlight++
	l.replyBusy(s, r.ID, r.Key)
}

// handleRelease carries out §4. It returns false when the release lane is full:
// then nothing was done, and the session waits (§4.3).
func (l *loop) handleRelease(s *session, r *request) bool {
	dst, hash := r.dst, r.hash
	if dst == l.direct {
		if l.own().Release(l.now, r.Key, hash, r.ID) {
			l.replyReleased(s, r.ID, r.Key)
		} else {
			l.replyNotHeld(s, r.ID, r.Key)
		}
		return true
	}
	if !l.srv.budgets.Releases.TryTake() && !l.block(s) {
		return false
	}
	b := l.outboxFor(dst)
	b.releases++
	b.add(message{kind: askRelease, session: s.id, id: r.ID, hash: hash}, r.Key)
	s.abroad++
	return true
}

// giveBack releases a grant whose session ended before the reply left: nobody
// can know its token, and the key need not stay shut for the whole lease.
func (l *loop) giveBack(key []byte, token uint64) {
	dst, hash := l.place(key)
	if dst != l.direct {
		l.outboxFor(dst).add(message{kind: tellGiveBack, id: token, hash: hash}, key)
		return
	}
	l.own().Release(l.now, key, hash, token)
}
