package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Instant is nanoseconds on the one monotonic clock of the run.
type Instant int64

// Never is later than every instant of a run.
const Never Instant = 1<<63 - 1

// Sub returns t-u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Add returns t+d.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Kind is what was asked.
type Kind uint8

// The two requests there are.
const (
	Acquire Kind = iota + 1
	Release
)

// Outcome is what a client was told.
type Outcome uint8

// The outcomes. Those of the first line are of acquires, those of the second of
// releases, those of the third of both.
const (
	Granted Outcome = iota + 1
	TimedOut
	Busy

	Released
	NotHeld

	NotExecuted   // certainly nothing was done
	Indeterminate // it may have happened, at any time since the call
)

var outcomes = [...]string{
	Granted: "granted", TimedOut: "timeout", Busy: "busy", Released: "released", NotHeld: "not_held",
	NotExecuted: "not_executed", Indeterminate: "indeterminate",
}

func (o Outcome) String() string {
	if int(o) < len(outcomes) && outcomes[o] != "" {
		return outcomes[o]
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Outcomes yields every outcome, in the order of their numbers.
func Outcomes() []Outcome {
	return []Outcome{Granted, TimedOut, Busy, Released, NotHeld, NotExecuted, Indeterminate}
}

// Op is one call of a client.
type Op struct {
	Worker  int
	Kind    Kind
	Key     string
	Token   uint64 // of a grant and of a release; otherwise 0
	Wait    uint8  // of an acquire, in seconds
	Lease   uint8  // of an acquire, in seconds
	Outcome Outcome
	Call    Instant // before the call
	Return  Instant // after it
	Ends    Instant // of a grant: when the client takes the lease to end
	Retried bool    // of a release: it was sent more than once, so a NotHeld may be the answer to its own success
	Error   string  // what the client said
}

func (o *Op) lease() time.Duration { return time.Duration(o.Lease) * time.Second }

func (o *Op) wait() time.Duration { return time.Duration(o.Wait) * time.Second }

// String is one line of a report.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11.6f .. %11.6f  worker %-3d ", seconds(o.Call), seconds(o.Return), o.Worker)
	if o.Kind == Acquire {
		fmt.Fprintf(&b, "acquire %q wait %d lease %d: %v", o.Key, o.Wait, o.Lease, o.Outcome)
		if o.Outcome == Granted {
			fmt.Fprintf(&b, " token %d until %.6f", o.Token, seconds(o.Ends))
		}
	} else {
		fmt.Fprintf(&b, "release %q token %d: %v", o.Key, o.Token, o.Outcome)
		if o.Retried {
			b.WriteString(" (sent more than once)")
		}
	}
	if o.Error != "" {
		fmt.Fprintf(&b, "  [%s]", o.Error)
	}
	return b.String()
}

func seconds(t Instant) float64 { return time.Duration(t).Seconds() }

// byCall sorts by the instant of the call.
func byCall(a, b *Op) int { return cmp.Compare(a.Call, b.Call) }

// ByKey parts a history by key, each in order of calls, and returns the keys in
// order too.
func ByKey(ops []Op) (keys []string, parts map[string][]*Op) {
	parts = map[string][]*Op{}
	for i := range ops {
		o := &ops[i]
		if parts[o.Key] == nil {
			keys = append(keys, o.Key)
		}
		parts[o.Key] = append(parts[o.Key], o)
	}
	for _, part := range parts {
		slices.SortStableFunc(part, byCall)
	}
	slices.Sort(keys)
	return keys, parts
}
