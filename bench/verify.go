package bench

import (
	"fmt"
	"sync"
	"time"
)

// verifier judges grants and releases. All instants are this process's, ns since
// the run began, taken so that no server can be wronged: a request counts as
// sent before it is written, a reply as received after it was read. Hence
//
//   - whatever was sent after a reply was received, the server did after it sent
//     that reply;
//   - a lease began after its acquire was sent, and after the holding before it
//     on the same key ended.
//
// Where a lease may have ended by then, nothing is said.
type verifier struct {
	names *keySet
	lease int64 // ns; less what two clocks may differ by
	wait  int64 // the same
	full  int64 // the lease, and what clocks may differ by, and what §3.6 allows
	keys  []keyState
	alone bool // there is one thread: nothing is locked
	found *violations

	recent recentTokens
}

// clockDrift is how much faster the server's clock may run: 1/clockDrift.
const clockDrift = 1000

// promptness is how late the end of a lease may show (§3.6).
const promptness = int64(10 * time.Millisecond)

func newVerifier(names *keySet, keys int, wait, lease time.Duration, threads int, found *violations) *verifier {
	return &verifier{
		names: names,
		lease: int64(lease - lease/clockDrift),
		wait:  int64(wait - wait/clockDrift),
		full:  int64(lease+lease/clockDrift) + promptness,
		keys:  make([]keyState, keys),
		alone: threads == 1,
		found: found,
	}
}

// keyState is the last grant of a key: the one with the greatest token. It fills
// a cache line.
type keyState struct {
	mu       sync.Mutex
	fixed    uint32 // never written, so that reading it needs no lock
	conn     uint32
	token    uint64 // 0: never granted
	owner    uint64
	received int64
	begun    int64 // its lease began then, or later
	released int64 // when its release was about to be sent; 0: not yet
	_        [8]byte
}

// at returns the state of a key, locked.
func (v *verifier) at(key uint32) *keyState {
	k := &v.keys[key]
	if !v.alone {
		k.mu.Lock()
	}
	return k
}

func (v *verifier) done(k *keyState) {
	if !v.alone {
		k.mu.Unlock()
	}
}

// grant is one A as it was received.
type grant struct {
	key          uint32
	conn         uint32
	owner, token uint64
	floor        uint64 // the greatest token that was received before the acquire was sent
	sent         int64
	received     int64
}

// granted judges a grant and returns the instant its lease began at the earliest.
func (v *verifier) granted(g *grant) (begun int64) {
	k := v.at(g.key)
	begun = v.judge(g, k)
	v.done(k)
	return begun
}

func (v *verifier) judge(g *grant, k *keyState) (begun int64) {
	begun = g.sent
	if k.token == 0 {
		if g.token <= g.floor {
			v.notAboveFloor(g)
		}
		k.take(g, begun)
		return begun
	}
	leaseEnd := k.begun + v.lease
	switch {
	case g.token < k.token && k.received >= g.sent+v.lease:
		// Its lease was over when the one with the greater token was granted;
		// this reply was only read after that one's.
		return begun
	case k.released != 0:
		begun = max(begun, min(k.released, leaseEnd))
	case g.received < leaseEnd:
		v.twoHolders(g, k)
	default:
		begun = max(begun, leaseEnd)
	}
	switch {
	case g.token == k.token:
		v.repeated(g, g.key, k.conn)
	case g.token < k.token:
		v.notAboveKeys(g, k)
		return begun
	case g.token <= g.floor:
		v.notAboveFloor(g)
	}
	k.take(g, begun)
	return begun
}

func (k *keyState) take(g *grant, begun int64) {
	k.conn, k.token, k.owner = g.conn, g.token, g.owner
	k.received, k.begun, k.released = g.received, begun, 0
}

// releasing notes that the release of a grant is about to be sent.
func (v *verifier) releasing(key uint32, token uint64, now int64) {
	k := v.at(key)
	if k.token == token {
		k.released = now
	}
	v.done(k)
}

// ended is the answer to a release.
type ended struct {
	key      uint32
	conn     uint32
	token    uint64
	begun    int64 // of its lease, at the earliest
	granted  int64 // received
	sent     int64
	received int64
}

// notHeld judges an N: the lease must have had the time to end.
func (v *verifier) notHeld(e *ended) {
	if e.received >= e.begun+v.lease {
		return
	}
	name := v.names.name(e.key)
	v.found.add(Violation{
		Kind: WrongNotHeld, Key: name, Tokens: []uint64{e.token}, Connections: []int{int(e.conn)},
		Times: []float64{seconds(e.received), seconds(e.granted), seconds(e.sent)},
		Text: fmt.Sprintf("key %q, token %d: N at %s on connection %d for a release sent at %s; the grant was received at %s and its lease had not ended",
			name, e.token, instant(e.received), e.conn, instant(e.sent), instant(e.granted)),
	})
}

// released judges an R: the lease must not have ended before the release was sent.
func (v *verifier) released(e *ended) {
	if e.sent <= e.granted+v.full {
		return
	}
	name := v.names.name(e.key)
	v.found.add(Violation{
		Kind: WrongReleased, Key: name, Tokens: []uint64{e.token}, Connections: []int{int(e.conn)},
		Times: []float64{seconds(e.received), seconds(e.granted), seconds(e.sent)},
		Text: fmt.Sprintf("key %q, token %d: R at %s on connection %d for a release sent at %s; the grant was received at %s and its lease had ended",
			name, e.token, instant(e.received), e.conn, instant(e.sent), instant(e.granted)),
	})
}

// timedOut judges a T.
func (v *verifier) timedOut(key, conn uint32, owner uint64, sent, received int64) {
	if received-sent >= v.wait {
		return
	}
	name := v.names.name(key)
	v.found.add(Violation{
		Kind: EarlyTimeout, Key: name, Owners: []string{ownerText(owner)}, Connections: []int{int(conn)},
		Times: []float64{seconds(received), seconds(sent)},
		Text: fmt.Sprintf("key %q, owner %#x: T at %s on connection %d, for an attempt sent at %s whose wait had not run out",
			name, owner, instant(received), conn, instant(sent)),
	})
}

func (v *verifier) twoHolders(g *grant, k *keyState) {
	name := v.names.name(g.key)
	v.found.add(Violation{
		Kind: TwoHolders, Key: name, Tokens: []uint64{g.token, k.token},
		Owners:      []string{ownerText(g.owner), ownerText(k.owner)},
		Connections: []int{int(g.conn), int(k.conn)},
		Times:       []float64{seconds(g.received), seconds(k.received)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, while token %d, granted at %s to owner %#x on connection %d, was not released and its lease had not ended",
			name, g.token, instant(g.received), g.owner, g.conn, k.token, instant(k.received), k.owner, k.conn),
	})
}

func (v *verifier) notAboveKeys(g *grant, k *keyState) {
	v.notRising(g, fmt.Sprintf("the same key was granted at %s with token %d", instant(k.received), k.token), k.token)
}

func (v *verifier) notAboveFloor(g *grant) {
	v.notRising(g, fmt.Sprintf("token %d was received before the attempt was sent at %s", g.floor, instant(g.sent)), g.floor)
}

func (v *verifier) notRising(g *grant, why string, than uint64) {
	name := v.names.name(g.key)
	v.found.add(Violation{
		Kind: TokenNotRising, Key: name, Tokens: []uint64{g.token, than}, Owners: []string{ownerText(g.owner)},
		Connections: []int{int(g.conn)}, Times: []float64{seconds(g.received), seconds(g.sent)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, but %s",
			name, g.token, instant(g.received), g.owner, g.conn, why),
	})
}

func (v *verifier) repeated(g *grant, other uint32, conn uint32) {
	name, otherName := v.names.name(g.key), v.names.name(other)
	v.found.add(Violation{
		Kind: TokenRepeated, Key: name, Tokens: []uint64{g.token}, Owners: []string{ownerText(g.owner)},
		Connections: []int{int(g.conn), int(conn)}, Times: []float64{seconds(g.received)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, and before that for key %q on connection %d",
			name, g.token, instant(g.received), g.owner, g.conn, otherName, conn),
	})
}

// outOfTurn reports a grant to an attempt that one behind it was granted before.
func (v *verifier) outOfTurn(g *grant, later *turn) {
	name := v.names.name(g.key)
	v.found.add(Violation{
		Kind: OutOfTurn, Key: name, Tokens: []uint64{g.token, later.token},
		Owners: []string{ownerText(g.owner), ownerText(later.owner)}, Connections: []int{int(g.conn)},
		Times: []float64{seconds(g.received), seconds(g.sent)},
		Text: fmt.Sprintf("key %q: owner %#x was granted token %d at %s on connection %d, after owner %#x, whose attempt the connection sent later, had got token %d",
			name, g.owner, g.token, instant(g.received), g.conn, later.owner, later.token),
	})
}

// recentTokens remembers which of the last tokens were granted, of all threads:
// two grants under way at once may have the same token on different keys.
type recentTokens struct {
	mu    sync.Mutex
	cells [1 << 16]struct {
		token     uint64
		key, conn uint32
	}
}

// check judges the grants of one round.
func (v *verifier) checkRepeats(round []grant) {
	r := &v.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range round {
		g := &round[i]
		cell := &r.cells[g.token%uint64(len(r.cells))]
		if cell.token == g.token && cell.key != g.key { // the same key is judged by granted
			v.repeated(g, cell.key, cell.conn)
		}
		cell.token, cell.key, cell.conn = g.token, g.key, g.conn
	}
}
