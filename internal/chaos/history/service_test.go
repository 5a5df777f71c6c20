package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A service decides about keys in virtual time, and answers late, or never. It
// may have one defect.
type service struct {
	random *rand.Rand
	defect string
	token  uint64
	keys   map[string]*holding
	ops    []Op
	now    Instant
}

type holding struct {
	token uint64
	ends  Instant // when the service ends the lease
	lease time.Duration
}

// after returns an instant up to d later.
func (s *service) after(t Instant, d time.Duration) Instant {
	return t.Add(time.Duration(s.random.Int64N(int64(d))))
}

// call decides one call, that was made a while before and is answered a while
// later.
func (s *service) call(op Op) {
	op.Call = s.after(s.now, time.Millisecond) - Instant(20*time.Millisecond)
	op.Return = s.after(s.now, 20*time.Millisecond) + Instant(time.Millisecond)
	h := s.keys[op.Key]
	if h != nil && s.now >= h.ends {
		h = nil
	}
	if op.Kind == Acquire {
		op.Outcome = TimedOut
		if h == nil {
			if s.defect == "tokens start over" && s.random.IntN(100) == 0 {
				s.token = uint64(s.random.IntN(3))
			}
			s.token++
			op.Outcome, op.Token = Granted, s.token
			h = &holding{token: s.token, ends: s.now.Add(op.lease()), lease: op.lease()}
			// Under a new leader it begins anew.
			h.ends = h.ends.Add(time.Duration(s.random.IntN(2)) * time.Duration(s.random.Int64N(int64(h.lease))))
			if s.defect == "leases end early" {
				h.ends = s.now.Add(h.lease / 2)
			}
			op.Ends = op.Return.Add(op.lease())
		} else if s.defect == "two holders" && s.random.IntN(50) == 0 {
			s.token++
			op.Outcome, op.Token, op.Ends = Granted, s.token, op.Return.Add(op.lease())
		}
	} else {
		op.Outcome = NotHeld
		if h != nil && (h.token == op.Token || s.defect == "any token releases") {
			op.Outcome, h = Released, nil
		}
	}
	s.keys[op.Key] = h
	if s.random.IntN(20) == 0 { // it is never answered
		if op.Token > 0 && op.Kind == Acquire {
			op.Token, op.Ends = 0, 0
		}
		op.Outcome = Indeterminate
		if s.defect == "lost calls are denied" {
			op.Outcome = NotExecuted
		}
	}
	s.ops = append(s.ops, op)
}

// serve makes a history of some seconds.
func serve(seed uint64, defect string) []Op {
	s := &service{random: rand.New(rand.NewPCG(seed, 0)), defect: defect, keys: map[string]*holding{}, now: Instant(time.Second)}
	var tokens []Op // that may be released
	for range 2000 {
		s.now = s.after(s.now, 5*time.Millisecond)
		key := fmt.Sprint("k", s.random.IntN(8), ".", s.now/Instant(2*time.Second))
		if len(tokens) > 0 && s.random.IntN(5) < 2 {
			i := s.random.IntN(len(tokens))
			s.call(Op{Kind: Release, Key: tokens[i].Key, Token: tokens[i].Token})
			if s.random.IntN(4) > 0 {
				tokens = slices.Delete(tokens, i, i+1)
			}
			continue
		}
		s.call(Op{Kind: Acquire, Key: key, Lease: 1})
		if last := s.ops[len(s.ops)-1]; last.Outcome == Granted && s.random.IntN(4) > 0 {
			tokens = append(tokens, last)
		}
	}
	return s.ops
}

// A right service is never accused, whatever is lost.
func TestRightServiceIsNotAccused(t *testing.T) {
	for seed := range uint64(20) {
		for _, v := range Check(serve(seed, "")) {
			t.Fatalf("seed %d: %v", seed, &v)
		}
	}
}

// A service with a defect is found within few histories.
func TestDefectsAreFound(t *testing.T) {
	for defect, check := range map[string]string{
		"tokens start over": "tokens", "leases end early": "keys", "two holders": "keys",
		"any token releases": "keys", "lost calls are denied": "keys",
	} {
		found := 0
		for seed := range uint64(5) {
			if slices.Contains(checks(serve(seed, defect)), check) {
				found++
			}
		}
		if found < 4 {
			t.Errorf("%s: found in %d of 5 histories", defect, found)
		}
	}
}

// The history of a long run is judged in seconds.
func BenchmarkCheck(b *testing.B) {
	var ops []Op
	for seed := range uint64(50) {
		for _, o := range serve(seed, "") {
			o.Key = fmt.Sprint(o.Key, "/", seed)
			if o.Token > 0 {
				o.Token += seed * 10000
			}
			for _, t := range []*Instant{&o.Call, &o.Return, &o.Ends} {
				*t = t.Add(time.Duration(seed) * time.Hour)
			}
			ops = append(ops, o)
		}
	}
	b.ReportMetric(float64(len(ops)), "calls")
	for b.Loop() {
		if all := Check(ops); len(all) > 0 {
			b.Fatal(&all[0])
		}
	}
}
