package client

import (
	"errors"
	"testing"
	"time"
)

// What began in one turn counts once, however many sessions it ends: two that
// hear the same E must not double the delay or skip an address.
func TestRouteCountsATurnOnce(t *testing.T) {
	var r route
	r.init([]string{"a:1", "b:1", "c:1"})
	err := errors.New("x")
	turn := r.turn
	r.miss(turn, err)
	r.miss(turn, err)
	if r.misses != 1 || r.target != "b:1" {
		t.Fatalf("%d misses, target %s", r.misses, r.target)
	}
	refusal := &ServerError{Reason: "auth_failed"}
	for range refusalRounds * len(r.addrs) {
		if r.refused() {
			t.Fatal("refused too early")
		}
		r.miss(r.turn, refusal)
		r.miss(r.turn-1, refusal)
	}
	if !r.refused() {
		t.Fatal("not refused after every round")
	}
	r.proved()
	if r.refused() || r.delay() != 0 || r.reason != nil {
		t.Fatal("a reply does not clear the past")
	}
}

func TestRouteDelaysByRound(t *testing.T) {
	var r route
	r.init([]string{"a:1", "b:1"})
	for _, want := range []time.Duration{0, 0, 25, 25, 50, 50, 100, 100, 200, 200, 400, 400, 800, 800, 1000, 1000, 1000} {
		want *= time.Millisecond
		if got := r.delay(); got > want || got < want/2 {
			t.Fatalf("after %d misses the delay is %v, want %v to %v", r.misses, got, want/2, want)
		}
		r.miss(r.turn, errNoAnswer)
	}
	r.proved()
	for n := range 10 {
		if got := r.delay(); (got > 0) != (n > freeSteers) {
			t.Fatalf("after %d steers the delay is %v", n, got)
		}
		to := "c:1"
		if r.target == to {
			to = "a:1"
		}
		if !r.steer(r.target, to) || r.target != to {
			t.Fatal("not steered")
		}
	}
	if !r.steer("elsewhere:1", "b:1") || r.target == "b:1" {
		t.Fatal("steered by a session that is not on the target")
	}
}

// While a leader is elected the delay stays short, and not for ever.
func TestRouteDelaysInAnElection(t *testing.T) {
	for name, lose := range map[string]func(r *route){
		"no leader is known": func(r *route) { r.miss(r.turn, &ServerError{Reason: "no_leader"}) },
		"the leader is gone": func(r *route) {
			r.steer(r.target, "gone:1")
			r.miss(r.turn, errNoAnswer)
		},
	} {
		var r route
		r.init([]string{"a:1", "b:1"})
		lose(&r)
		if r.election == 0 {
			t.Fatalf("%s: that is no sign of an election", name)
		}
		for last := r.election + electionRounds; r.round() < last; lose(&r) {
			if r.delay() > backoffElection {
				t.Fatalf("%s: in round %d the delay is %v", name, r.round(), r.delay())
			}
		}
		if got := r.delay(); got < backoffMax/2 {
			t.Fatalf("%s, for long: the delay is %v", name, got)
		}
		r.proved()
		for range 20 {
			r.miss(r.turn, errNoAnswer)
		}
		if got := r.delay(); got < backoffMax/2 {
			t.Fatalf("%s, formerly: the delay is %v", name, got)
		}
	}
}
