package bench

import (
	"fmt"
	"strconv"
	"sync"
)

// Kind is what a server did that it must not do.
type Kind string

const (
	// TwoHolders: a key was granted while a grant that was neither given back nor
	// could have expired was out (§3).
	TwoHolders Kind = "two holders"
	// TokenRepeated: two grants have the same token (§5).
	TokenRepeated Kind = "token repeated"
	// TokenNotRising: a grant's token is smaller than one issued before (§5).
	TokenNotRising Kind = "token not rising"
	// OutOfTurn: of two attempts that one connection queued for a key the later
	// one was granted first (§3.3, §4.4).
	OutOfTurn Kind = "out of turn"
	// Unmatched: a reply to nothing that is asked (§1.3).
	Unmatched Kind = "unmatched reply"
	// Malformed: bytes that are no reply (§1).
	Malformed Kind = "malformed reply"
	// Lost: no reply, long after it was due, on a connection that is open.
	Lost Kind = "lost reply"
	// EarlyTimeout: T before the wait ran out (§3.6).
	EarlyTimeout Kind = "early timeout"
	// WrongNotHeld: N for a token whose lease had not ended (§4.1, §3.6).
	WrongNotHeld Kind = "wrong not-held"
	// WrongReleased: R for a token whose lease had long ended (§4.2).
	WrongReleased Kind = "wrong released"
)

// Kinds returns all there are.
func Kinds() []Kind {
	return []Kind{TwoHolders, TokenRepeated, TokenNotRising, OutOfTurn, Unmatched, Malformed, Lost, EarlyTimeout, WrongNotHeld, WrongReleased}
}

// Violation is one thing that a server did and must not do. The parts that Text
// is made of stand beside it, as far as there are any.
type Violation struct {
	Kind        Kind      `json:"kind"`
	Text        string    `json:"text"`
	Key         string    `json:"key,omitempty"`
	Tokens      []uint64  `json:"tokens,omitempty"`      // the one in question first
	Owners      []string  `json:"owners,omitempty"`      // in hexadecimal, as in Text
	Connections []int     `json:"connections,omitempty"` // from 0
	Times       []float64 `json:"times,omitempty"`       // seconds since the run began
}

func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

// Of each kind the first keptViolations are kept; all are counted.
const keptViolations = 20

// violations gathers what all threads find.
type violations struct {
	mu    sync.Mutex
	kept  []Violation
	count map[Kind]int64
}

func (v *violations) add(found Violation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count == nil {
		v.count = make(map[Kind]int64)
	}
	v.count[found.Kind]++
	if v.count[found.Kind] <= keptViolations {
		v.kept = append(v.kept, found)
	}
}

func (v *violations) total() (n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, count := range v.count {
		n += count
	}
	return n
}

// How texts name instants (ns since the run began), attempts and lengths of time.
func seconds(at int64) float64 { return float64(at) / 1e9 }

func instant(at int64) string { return fmt.Sprintf("%.6f s", seconds(at)) }

func ownerText(owner uint64) string { return fmt.Sprintf("%#x", owner) }

func quoted(text []byte) string { return strconv.Quote(string(text)) }
