package e2e

import (
	"fmt"
	"testing"
)

// TestDefaultLimits: a server with no setting at all has the limits of §7.
func TestDefaultLimits(t *testing.T) {
	s := start(t)
	p := s.dial(t)
	// 2048 waiters a key, 16384 in all: closed at 90 %.
	const perKey, total, step = 2048, 14746, 512
	queued := 0
	for k := 0; queued < total; k++ {
		key := fmt.Sprint("k", k)
		p.lock(key, 250)
		for room := min(perKey, total-queued); room > 0; room -= step {
			n := min(room, step)
			var b []byte
			for range n {
				b = append(b, acquire(1, 250, 250, key)...)
			}
			p.send(b, release(0, key))
			p.expect('N', 0, key) // all of them are parked
			queued += n
		}
		p.refused('B', 250, key)
	}
	p.refused('B', 250, "k0")
	last := fmt.Sprint("k", total/perKey)
	p.refused('B', 250, last) // its queue has room, the server has none
	s.awaitMetrics(t, samples{
		"ticketing_waiters":                              total,
		`ticketing_refusals_total{reason="waiters"}`:     2,
		`ticketing_refusals_total{reason="queue_full"}`:  total/perKey + 1,
		`ticketing_limit{resource="keys"}`:               1048576,
		`ticketing_limit{resource="acquires_in_flight"}`: 4096,
		`ticketing_limit{resource="releases_in_flight"}`: 512,
	})
	peers := s.dials(t, 1023) // with p 1024
	for _, q := range peers {
		if !q.served(t) {
			t.Fatal("one of 1024 connections was turned away")
		}
	}
	if err := s.dial(t).turnedAway(); err != nil {
		t.Error(err)
	}
}
