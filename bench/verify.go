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
	locks *locks // nil: there is one thread
	found *violations

	recent recentTokens
}

// clockDrift is how much faster the server's clock may run: 1/clockDrift.
const clockDrift = 1000

// promptness is how late the end of a lease may show (§3.6).
const promptness = int64(10 * time.Millisecond)

func newVerifier(names *keySet, keys int, wait, lease time.Duration, threads, attempts int, found *violations) *verifier {
	v := &verifier{
		names: names,
		lease: int64(lease - lease/clockDrift),
		wait:  int64(wait - wait/clockDrift),
		full:  int64(lease+lease/clockDrift) + promptness,
		keys:  make([]keyState, keys),
		found: found,
	}
	if threads > 1 {
		v.locks = &locks{}
	}
	v.recent.cells = make([]recentToken, powerOfTwo(max(tokensPerAttempt*attempts, 1024)))
	return v
}

// keyState is the last grant of a key: the one with the greatest token. There are
// two to a cache line.
type keyState struct {
	token    uint64 // 0: never granted
	owner    uint64
	received int64
	span     int64 // of the holding: as holdsSince or endedBy has it
}

// A holding that goes on has the instant at which its lease began at the
// earliest; one whose release was about to be sent, the instant at which it ended
// at the earliest, negative.
func holdsSince(begun int64) int64 { return begun }
func endedBy(at int64) int64       { return -at }

// locks are for the states of all keys together, as many as are not in each
// other's way.
type locks [256]struct {
	sync.Mutex
	_ [56]byte
}

// at returns the state of a key, locked.
func (v *verifier) at(key uint32) *keyState {
	if v.locks != nil {
		v.locks[key%uint32(len(v.locks))].Lock()
	}
	return &v.keys[key]
}

func (v *verifier) done(key uint32) {
	if v.locks != nil {
		v.locks[key%uint32(len(v.locks))].Unlock()
	}
}

// grant is one A as it was received.
type grant struct {
	key          uint32
	owner, token uint64
	floor        uint64 // the greatest token that was received before the acquire was sent
	sent         int64
	received     int64
	overtaken    bool // judge has reported that it is out of turn
}

// granted judges a grant and returns the instant its lease began at the earliest.
func (v *verifier) granted(g *grant) (begun int64) {
	k := v.at(g.key)
	begun = v.judge(g, k)
	v.done(g.key)
	return begun
}

func (v *verifier) judge(g *grant, k *keyState) (begun int64) {
	begun = g.sent
	if k.token == 0 {
		if g.token <= g.floor {
			v.notAboveFloor(g)
		}
		*k = keyState{g.token, g.owner, g.received, holdsSince(begun)}
		return begun
	}
	switch {
	case g.token < k.token && k.received >= g.sent+v.lease:
		// Its lease was over when the one with the greater token was granted;
		// this reply was only read after that one's.
		return begun
	case k.span < 0:
		begun = max(begun, -k.span)
	case g.received < k.span+v.lease:
		v.twoHolders(g, k)
	default:
		begun = max(begun, k.span+v.lease)
	}
	switch {
	case g.token == k.token:
		v.repeated(g, g.key, connOf(k.owner))
	case g.token < k.token:
		v.notAboveKeys(g, k)
		return begun
	case g.token <= g.floor:
		v.notAboveFloor(g)
	case connOf(k.owner) == connOf(g.owner) && g.owner < k.owner:
		g.overtaken = true
		v.outOfTurn(g, k.owner, k.token)
	}
	*k = keyState{g.token, g.owner, g.received, holdsSince(begun)}
	return begun
}

// releasing notes that the release of a grant is about to be sent. The holding
// ends then, or at the end of its lease.
func (v *verifier) releasing(key uint32, token uint64, now int64) {
	k := v.at(key)
	if k.token == token && k.span >= 0 {
		k.span = endedBy(min(now, k.span+v.lease))
	}
	v.done(key)
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
		Connections: []int{connOf(g.owner), connOf(k.owner)},
		Times:       []float64{seconds(g.received), seconds(k.received)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, while token %d, granted at %s to owner %#x on connection %d, was not released and its lease had not ended",
			name, g.token, instant(g.received), g.owner, connOf(g.owner), k.token, instant(k.received), k.owner, connOf(k.owner)),
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
		Connections: []int{connOf(g.owner)}, Times: []float64{seconds(g.received), seconds(g.sent)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, but %s",
			name, g.token, instant(g.received), g.owner, connOf(g.owner), why),
	})
}

func (v *verifier) repeated(g *grant, other uint32, conn int) {
	name, otherName := v.names.name(g.key), v.names.name(other)
	v.found.add(Violation{
		Kind: TokenRepeated, Key: name, Tokens: []uint64{g.token}, Owners: []string{ownerText(g.owner)},
		Connections: []int{connOf(g.owner), conn}, Times: []float64{seconds(g.received)},
		Text: fmt.Sprintf("key %q: token %d was granted at %s to owner %#x on connection %d, and before that for key %q on connection %d",
			name, g.token, instant(g.received), g.owner, connOf(g.owner), otherName, conn),
	})
}

// outOfTurn reports a grant to an attempt that one sent later was granted before.
func (v *verifier) outOfTurn(g *grant, later, laterToken uint64) {
	name := v.names.name(g.key)
	v.found.add(Violation{
		Kind: OutOfTurn, Key: name, Tokens: []uint64{g.token, laterToken},
		Owners: []string{ownerText(g.owner), ownerText(later)}, Connections: []int{connOf(g.owner)},
		Times: []float64{seconds(g.received), seconds(g.sent)},
		Text: fmt.Sprintf("key %q: owner %#x was granted token %d at %s on connection %d, after owner %#x, whose attempt the connection sent later, had got token %d",
			name, g.owner, g.token, instant(g.received), connOf(g.owner), later, laterToken),
	})
}

// tokensPerAttempt is how many of the last tokens are remembered for each attempt
// that may be under way: the older ones are below what was received before any
// of these was sent.
const tokensPerAttempt = 4

// recentTokens remembers which of the last tokens were granted, of all threads:
// two grants under way at once may have the same token on different keys.
type recentTokens struct {
	mu    sync.Mutex
	cells []recentToken // a power of two of them, by the token's low bits
}

type recentToken struct {
	token     uint64
	key, conn uint32
}

// checkRepeats judges the grants of one round.
func (v *verifier) checkRepeats(round []grant) {
	r := &v.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range round {
		g := &round[i]
		cell := &r.cells[g.token&uint64(len(r.cells)-1)]
		if cell.token == g.token && cell.key != g.key { // the same key is judged by granted
			v.repeated(g, cell.key, int(cell.conn))
		}
		*cell = recentToken{g.token, g.key, uint32(connOf(g.owner))}
	}
}
