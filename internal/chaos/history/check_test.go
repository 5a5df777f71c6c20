package history

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Histories by hand: instants in milliseconds, leases of 1 s, one key unless
// said otherwise.

func at(ms int) Instant { return Instant(ms) * Instant(time.Millisecond) }

func granted(token uint64, call, ret int) Op {
	return Op{Kind: Acquire, Key: "k", Token: token, Lease: 1, Outcome: Granted, Call: at(call), Return: at(ret), Ends: at(ret + 1000)}
}

func refused(o Outcome, wait uint8, call, ret int) Op {
	return Op{Kind: Acquire, Key: "k", Wait: wait, Lease: 1, Outcome: o, Call: at(call), Return: at(ret)}
}

func release(token uint64, o Outcome, call, ret int) Op {
	return Op{Kind: Release, Key: "k", Token: token, Outcome: o, Call: at(call), Return: at(ret)}
}

func of(key string, o Op) Op { o.Key = key; return o }

func retried(o Op) Op { o.Retried = true; return o }

// checks returns which checkers object.
func checks(ops []Op) []string {
	var names []string
	for _, v := range Check(ops) {
		names = append(names, v.Check)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestGoodHistories(t *testing.T) {
	for name, ops := range map[string][]Op{
		"nothing":                {},
		"one after another":      {granted(1, 0, 10), release(1, Released, 20, 30), granted(2, 40, 50), release(2, Released, 60, 70)},
		"a waiter":               {granted(1, 0, 10), granted(2, 5, 35), release(1, Released, 20, 30)},
		"waiters":                {granted(1, 0, 10), granted(3, 5, 95), granted(2, 6, 35), release(1, Released, 20, 30), release(2, Released, 60, 90)},
		"expiry":                 {granted(1, 0, 10), granted(2, 20, 1005)},
		"expiry, late release":   {granted(1, 0, 10), granted(2, 20, 1005), release(1, NotHeld, 1100, 1110), release(2, Released, 1200, 1210)},
		"a lease begun anew":     {granted(1, 0, 10), refused(TimedOut, 0, 5000, 5010), granted(2, 6000, 6010)},
		"expiry without a trace": {granted(1, 0, 10), release(1, NotHeld, 1100, 1110)},
		"a lost release":         {granted(1, 0, 10), release(1, Indeterminate, 20, 5020), granted(2, 30, 40)},
		"a release told late":    {granted(1, 0, 10), release(1, Indeterminate, 20, 30), granted(2, 500, 510), release(2, Released, 520, 530)},
		"a lost release, unused": {granted(1, 0, 10), release(1, Indeterminate, 20, 30), refused(TimedOut, 0, 40, 50), granted(2, 1100, 1110)},
		"a release twice":        {granted(1, 0, 10), retried(release(1, NotHeld, 20, 900)), granted(2, 500, 510), release(2, Released, 520, 530)},
		"held while asked":       {granted(1, 0, 10), refused(TimedOut, 0, 20, 30), release(1, Released, 40, 50)},
		"a wait that ends":       {granted(1, 0, 10), refused(TimedOut, 1, 20, 1025), release(1, Released, 1022, 1050)},
		"held by who is unknown": {refused(Indeterminate, 1, 0, 10), refused(TimedOut, 0, 20, 30), refused(TimedOut, 0, 9000, 9010), granted(1, 9020, 9030)},
		"busy":                   {refused(Busy, 0, 0, 10), granted(1, 20, 30), refused(Busy, 5, 40, 50)},
		"not executed":           {refused(NotExecuted, 0, 0, 10), granted(1, 20, 30)},
		"two keys":               {granted(1, 0, 10), of("q", granted(2, 20, 30)), of("q", release(2, Released, 40, 50)), release(1, Released, 60, 70)},
		"a foreign token":        {granted(1, 0, 10), release(99, NotHeld, 20, 30), release(1, Released, 40, 50)},
		"read late":              {granted(1, 0, 900), of("q", granted(2, 10, 20)), granted(3, 950, 1100), release(3, Released, 1150, 1160)},
		"overtaken on the way":   {granted(1, 0, 300), of("q", granted(2, 100, 200))},
	} {
		for _, v := range Check(ops) {
			t.Errorf("%s: %v", name, &v)
		}
	}
}

func TestBadHistories(t *testing.T) {
	for name, bad := range map[string]struct {
		ops  []Op
		want string // the checkers that object, in order
	}{
		"two holders":            {[]Op{granted(1, 0, 10), granted(2, 20, 30)}, "intervals keys"},
		"two holders by lease":   {[]Op{granted(1, 0, 10), granted(2, 20, 990)}, "intervals keys"},
		"a lease ended early":    {[]Op{granted(1, 0, 10), granted(2, 20, 995), release(2, Released, 996, 997), release(1, NotHeld, 998, 999)}, "intervals keys"},
		"granted behind":         {[]Op{granted(1, 0, 10), granted(2, 20, 30), release(1, Released, 40, 50)}, "intervals keys"},
		"a stolen key":           {[]Op{granted(1, 0, 10), release(1, NotHeld, 20, 30)}, "keys"},
		"stolen while released":  {[]Op{granted(1, 0, 10), retried(release(1, NotHeld, 40, 50)), granted(2, 20, 30)}, "intervals keys"},
		"released after another": {[]Op{granted(1, 0, 10), granted(2, 20, 1100), release(1, Released, 1200, 1300), release(2, Released, 1400, 1500)}, "keys"},
		"released, never held":   {[]Op{release(7, Released, 0, 10)}, "keys"},
		"a free key denied":      {[]Op{granted(1, 0, 10), release(1, Released, 20, 30), refused(TimedOut, 0, 40, 50)}, "keys"},
		"denied, not executed":   {[]Op{refused(NotExecuted, 1, 0, 10), refused(TimedOut, 0, 40, 50)}, "keys"},
		"a wait without holder":  {[]Op{granted(1, 0, 10), release(1, Released, 20, 30), refused(TimedOut, 1, 5, 1050)}, "keys"},
		"a wait ended early":     {[]Op{granted(1, 0, 10), refused(TimedOut, 1, 20, 1010)}, "answers"},
		"released twice":         {[]Op{granted(1, 0, 10), release(1, Released, 20, 30), release(1, Released, 40, 50)}, "answers keys"},
		"another's key":          {[]Op{granted(1, 0, 10), of("q", release(1, Released, 20, 30))}, "answers keys"},
		"token 0":                {[]Op{granted(0, 0, 10)}, "tokens"},
		"a token twice":          {[]Op{granted(1, 0, 10), of("q", granted(1, 20, 30))}, "tokens"},
		"tokens fall":            {[]Op{granted(2, 0, 10), of("q", granted(1, 20, 30))}, "tokens"},
		"tokens fall on a key":   {[]Op{granted(2, 0, 10), release(2, Released, 20, 30), granted(1, 40, 50)}, "tokens"},
		"tokens start over":      {[]Op{granted(5, 0, 10), of("q", granted(6, 20, 30)), of("r", granted(1, 100, 110))}, "tokens"},
	} {
		if got := strings.Join(checks(bad.ops), " "); got != bad.want {
			t.Errorf("%s: %q object, want %q", name, got, bad.want)
		}
	}
}

// An unknown grant explains what is seen after its call, and nothing before.
func TestUnknownExplainsOnlyWhatFollows(t *testing.T) {
	before := []Op{refused(TimedOut, 0, 0, 10), refused(Indeterminate, 1, 20, 30)}
	if got := checks(before); !slices.Equal(got, []string{"keys"}) {
		t.Errorf("before it was called: %q object", got)
	}
}

// Tokens over all keys narrow when a grant was decided, and so when its lease
// can have ended.
func TestBoundsFromOtherKeys(t *testing.T) {
	ops := []Op{
		granted(1, 0, 10),
		granted(3, 20, 2000), // waited: by its call alone its lease might have begun at 20
		of("q", granted(2, 1500, 1510)),
		granted(4, 2100, 2200),
	}
	if got := checks(ops); !slices.Equal(got, []string{"intervals", "keys"}) {
		t.Fatalf("%q object", got)
	}
	b := NewBounds(ops)
	if s := b.decided(&ops[1]); s != (span{at(1500), at(2000)}) {
		t.Errorf("decided within %v", s)
	}
	if s := b.decided(&ops[2]); s != (span{at(1500), at(1510)}) {
		t.Errorf("decided within %v", s)
	}
}

// Of a long history only what shows the contradiction is told.
func TestWindowIsNarrow(t *testing.T) {
	var ops []Op
	for i := range 200 {
		ops = append(ops, granted(uint64(i+1), i*100, i*100+10), release(uint64(i+1), Released, i*100+20, i*100+30))
	}
	clean := len(ops)
	ops = append(ops, granted(201, 20000, 20010), granted(202, 20020, 20030))
	for i := 202; i < 400; i++ {
		ops = append(ops, granted(uint64(i+1), i*100, i*100+10), release(uint64(i+1), Released, i*100+20, i*100+30))
	}
	all := Keys(ops, NewBounds(ops))
	if len(all) != 1 {
		t.Fatalf("%d violations, want 1", len(all))
	}
	if got, want := all[0].Window, ops[clean:clean+2]; !slices.Equal(got, want) {
		t.Errorf("the window is\n%v\nwant the two calls\n%v", &all[0], want)
	}
	if text := all[0].String(); !strings.Contains(text, `acquire "k"`) || !strings.Contains(text, "token 202") {
		t.Errorf("the report does not show the calls:\n%s", text)
	}
}

func TestPatience(t *testing.T) {
	for _, c := range []struct {
		op Op
		ok bool
	}{
		{refused(NotExecuted, 0, 0, 7250), true},
		{refused(NotExecuted, 0, 0, 7251), false},
		{refused(NotExecuted, 2, 0, 4250), true},
		{refused(Indeterminate, 2, 0, 4251), false},
		{release(1, Indeterminate, 0, 7250), true},
		{release(1, Indeterminate, 0, 7251), false},
	} {
		if got := Patience([]Op{c.op}, time.Second); (len(got) == 0) != c.ok {
			t.Errorf("%v: %v", &c.op, got)
		}
	}
}

func TestHashes(t *testing.T) {
	for _, c := range []struct {
		name     string
		marks    []Mark
		bad      int
		compared int
	}{
		{"nothing", nil, 0, 0},
		{"one node", []Mark{{"a", 1, "x"}, {"a", 2, "y"}}, 0, 0},
		{"equal", []Mark{{"a", 1, "x"}, {"b", 1, "x"}, {"c", 1, "x"}, {"a", 2, "y"}, {"b", 2, "y"}}, 0, 2},
		{"said again", []Mark{{"a", 1, "x"}, {"a", 1, "x"}, {"b", 1, "x"}}, 0, 1},
		{"apart", []Mark{{"a", 1, "x"}, {"b", 1, "x"}, {"a", 2, "y"}, {"b", 2, "z"}}, 1, 2},
		{"one differs", []Mark{{"a", 1, "x"}, {"b", 1, "x"}, {"c", 1, "z"}}, 1, 1},
		{"changed its mind", []Mark{{"a", 1, "x"}, {"a", 1, "y"}}, 1, 0},
	} {
		bad, compared := Hashes(c.marks)
		if len(bad) != c.bad || compared != c.compared {
			t.Errorf("%s: %d violations over %d indexes, want %d over %d: %v", c.name, len(bad), compared, c.bad, c.compared, bad)
		}
	}
}

func TestLateness(t *testing.T) {
	ops := []Op{granted(1, 0, 300), of("q", granted(2, 100, 200))}
	if got := Lateness(ops); got != 100*time.Millisecond {
		t.Errorf("the first was decided by 200 and read at 300: %v", got)
	}
}
