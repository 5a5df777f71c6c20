package shard

import (
	"math"
	"sync/atomic"
)

// Constants of §7.
const (
	acquiresInFlight = 4096 // acquires decoded, and neither answered nor parked
	releasesInFlight = 512  // releases decoded and not answered, in a lane of their own
)

// Budgets are the limits of §7 that all shards and loops of a server share.
// Every field is safe for any number of goroutines.
type Budgets struct {
	Keys     *Admission // active keys: from grant until the release or expiry is noticed
	Waiters  *Admission // attempts parked in any queue
	Acquires *Admission // acquires in flight; taken and given by the loops
	Releases *Lane      // releases in flight; taken and given by the loops
	Tokens   *Tokens    // where every grant takes its token
}

// NewBudgets returns the budgets of a server that starts: nothing used, and
// tokens from 1. Both limits are at least 1.
func NewBudgets(maxKeys, maxTotalWaiters int) *Budgets {
	return &Budgets{
		Keys:     NewAdmission(maxKeys),
		Waiters:  NewAdmission(maxTotalWaiters),
		Acquires: NewAdmission(acquiresInFlight),
		Releases: NewLane(releasesInFlight),
		Tokens:   NewTokens(0),
	}
}

// Admission is a limit with hysteresis (§7): it closes when its use reaches
// 90 % of the limit and opens again when its use falls below 75 %. While it is
// closed it admits nobody, so its use never passes the limit.
type Admission struct {
	word  atomic.Uint64 // used<<1 | closed
	limit uint64
	_     [112]byte // a pair of cache lines of its own: shards on all cores write word
}

const admissionClosed = 1

// NewAdmission returns an open admission with nothing used. A limit below 1
// counts as 1.
func NewAdmission(limit int) *Admission {
	return &Admission{limit: uint64(max(limit, 1))}
}

// Take takes one, or reports false while the admission is closed. The Take
// that makes the use reach 90 % of the limit closes it behind itself.
func (a *Admission) Take() bool {
	for {
		old := a.word.Load()
		if old&admissionClosed != 0 {
			return false
		}
		next := old + 2
		if next>>1*10 >= a.limit*9 {
			next |= admissionClosed
		}
		if a.word.CompareAndSwap(old, next) {
			return true
		}
	}
}

// TakeAnyway takes one even while the admission is closed: for what is there
// already and is only taken note of.
func (a *Admission) TakeAnyway() {
	for {
		old := a.word.Load()
		next := old + 2
		if next>>1*10 >= a.limit*9 {
			next |= admissionClosed
		}
		if a.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// Give gives n back that were taken. The Give that makes the use fall below
// 75 % of the limit opens the admission.
func (a *Admission) Give(n int) {
	for {
		old := a.word.Load()
		next := old - uint64(n)<<1
		if next>>1*4 < a.limit*3 {
			next &^= admissionClosed
		}
		if a.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// Open reports whether the next Take would be admitted.
func (a *Admission) Open() bool { return a.word.Load()&admissionClosed == 0 }

// Used returns how many are taken.
func (a *Admission) Used() int { return int(a.word.Load() >> 1) }

// Limit returns the hard limit.
func (a *Admission) Limit() int { return int(a.limit) }

// Lane is a plain limit: it admits up to its limit and has no hysteresis, so
// that what it guards only ever waits for room (§4.3).
type Lane struct {
	used  atomic.Int64
	limit int64
	_     [112]byte // see Admission
}

// NewLane returns a lane with nothing used. A limit below 1 counts as 1.
func NewLane(limit int) *Lane { return &Lane{limit: int64(max(limit, 1))} }

// TryTake takes one, or reports false when the limit is reached.
func (l *Lane) TryTake() bool {
	for {
		used := l.used.Load()
		if used >= l.limit {
			return false
		}
		if l.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

// Give gives n back that were taken.
func (l *Lane) Give(n int) { l.used.Add(-int64(n)) }

// Used returns how many are taken.
func (l *Lane) Used() int { return int(l.used.Load()) }

// Limit returns the limit.
func (l *Lane) Limit() int { return int(l.limit) }

// lastToken is where Tokens fails closed. The distance to the overflow is for
// goroutines that passed the check together; there are never that many.
const lastToken = math.MaxUint64 - 1<<20

// Tokens issues fencing tokens: each greater than every one before it, over
// all keys and shards (§5).
type Tokens struct {
	last atomic.Uint64
	_    [120]byte // see Admission
}

// NewTokens returns tokens that go on after last; 0 starts at 1.
func NewTokens(last uint64) *Tokens {
	t := &Tokens{}
	t.last.Store(last)
	return t
}

// Next issues a token, or reports false, for good, before they would overflow.
func (t *Tokens) Next() (uint64, bool) {
	if t.last.Load() >= lastToken {
		return 0, false
	}
	return t.last.Add(1), true
}

// Reset makes the tokens go on after last, which may be below the last issued: a
// new lead does not know of tokens that were never replicated.
func (t *Tokens) Reset(last uint64) { t.last.Store(last) }

// Last returns the last token issued; 0 if none was.
func (t *Tokens) Last() uint64 { return t.last.Load() }
