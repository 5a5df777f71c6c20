package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestMetricsCountExactly: each counter is exactly what was done.
func TestMetricsCountExactly(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p, q, r := s.dial(t), s.dial(t), s.dial(t)
		var tokens [9]uint64
		for i := range tokens { // 9 grants; the 10th new key is refused
			tokens[i] = p.lock(fmt.Sprint("k", i), 250)
		}
		a, b := r.queue(4, 1, "k6"), r.queue(5, 1, "k6") // 2 waiters, 2 not held
		for range 3 {
			p.refused('B', 0, "new") // 3 refusals for keys
		}
		for range 5 {
			q.refused('T', 0, "k0") // 5 timeouts
		}
		var waiting []uint64
		for range 3 {
			waiting = append(waiting, q.queue(250, 250, "k0")) // 3 waiters, 3 not held
		}
		for range 4 {
			q.refused('B', 9, "k0") // 4 refusals for a full queue
		}
		for i := range 13 {
			q.queue(250, 250, fmt.Sprint("k", 1+i%5)) // 13 waiters, 13 not held
		}
		for range 2 {
			q.refused('B', 9, "k8") // 2 refusals for waiters in all: 18 of 20
		}
		p.unlock(tokens[0], "k0")
		second := q.expect('A', waiting[0], "k0").token
		p.unlock(second, "k0")
		q.expect('A', waiting[1], "k0") // 2 released, 2 handed over, 2 grants
		for range 6 {
			p.send(release(second, "k0"))
			p.expect('N', second, "k0") // 6 not held
		}
		p.unlock(tokens[7], "k7")
		p.unlock(tokens[8], "k8") // 2 released: 7 keys, and open again
		o := newOwner()
		p.send(acquire(o, 0, 1, "short"))
		short := p.expect('A', o, "short") // 1 grant
		r.expect('T', a, "k6")             // 2 timeouts
		r.expect('T', b, "k6")
		p.send(release(short.token, "short"))
		p.expect('N', short.token, "short") // 1 not held, 1 expiry
		want := samples{
			`ticketing_acquires_total{result="granted"}`:    9 + 2 + 1,
			`ticketing_acquires_total{result="timeout"}`:    5 + 2,
			`ticketing_acquires_total{result="busy"}`:       3 + 4 + 2,
			`ticketing_releases_total{result="released"}`:   2 + 2,
			`ticketing_releases_total{result="not_held"}`:   2 + 3 + 13 + 6 + 1,
			"ticketing_handovers_total":                     2,
			"ticketing_expiries_total":                      1,
			`ticketing_refusals_total{reason="keys"}`:       3,
			`ticketing_refusals_total{reason="queue_full"}`: 4,
			`ticketing_refusals_total{reason="waiters"}`:    2,
			"ticketing_connections":                         3,
			"ticketing_waiters":                             14,
			"ticketing_keys":                                7,
			"ticketing_wait_seconds_count":                  12,
			"ticketing_hold_seconds_count":                  4 + 1,
			`ticketing_wait_seconds_bucket{le="+Inf"}`:      12,
		}
		s.awaitMetrics(t, want)
		if sum := s.metrics(t)["ticketing_hold_seconds_sum"]; sum < 1 || sum > float64(5*patience/time.Second) {
			t.Errorf("the locks were held for %v s together", sum)
		}
		// A connection's end: its waiters leave, what it holds stays.
		q.close()
		s.awaitMetrics(t, samples{
			"ticketing_connections": 2, "ticketing_waiters": 0, "ticketing_keys": 7,
			`ticketing_acquires_total{result="timeout"}`: 7,
		})
	}, "MAX_KEYS=10", "MAX_WAITERS=3", "MAX_TOTAL_WAITERS=20")
}

// TestMetricsHandoverByExpiry: a hand-over that a lease's end brings counts as
// both.
func TestMetricsHandoverByExpiry(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		p := s.dial(t)
		p.lock("k", 1)
		o := p.queue(250, 1, "k")
		p.expect('A', o, "k")
		s.awaitMetrics(t, samples{
			`ticketing_acquires_total{result="granted"}`: 2, "ticketing_handovers_total": 1,
			"ticketing_expiries_total": 2, "ticketing_keys": 0, // the second by the sweep
			"ticketing_hold_seconds_count": 2,
		})
	})
}

// TestEndsByReason: each connection's end is counted under its reason.
func TestEndsByReason(t *testing.T) {
	onLoopsParallel(t, func(t *testing.T, s *server) {
		for word, b := range map[string][]byte{
			"bad_op": []byte("?"), "bad_lease": acquire(1, 0, 0, "k"), "bad_key": release(1, ""),
			"line_too_long": []byte("A" + text(300)), "auth_failed": []byte("no\n"),
		} {
			for range 3 {
				p, nonce := s.challenged(t)
				if word != "auth_failed" {
					p.send([]byte(digest(secret, nonce) + "\n"))
				}
				p.send(b)
				p.ends("E" + word + "\n")
				p.close()
			}
		}
		p := s.login(t, secret)
		p.send([]byte("A"))
		p.closeWrite()
		p.ends("Ebad_request\n")
		for range 2 {
			p = s.login(t, secret)
			p.quiet()
			p.reset()
			p = s.login(t, secret)
			p.quiet()
			p.close()
		}
		p, _ = s.challenged(t) // says nothing
		for range 10 - 1 {
			p := s.login(t, secret)
			p.quiet()
			defer p.close()
		}
		if err := s.dial(t).turnedAway(); err != nil {
			t.Error(err)
		}
		p.ends("")
		p.close()
		s.awaitMetrics(t, samples{
			`ticketing_connections_closed_total{reason="bad_op"}`:            3,
			`ticketing_connections_closed_total{reason="bad_lease"}`:         3,
			`ticketing_connections_closed_total{reason="bad_key"}`:           3,
			`ticketing_connections_closed_total{reason="line_too_long"}`:     3,
			`ticketing_connections_closed_total{reason="auth_failed"}`:       3,
			`ticketing_connections_closed_total{reason="bad_request"}`:       1,
			`ticketing_connections_closed_total{reason="reset"}`:             2,
			`ticketing_connections_closed_total{reason="client"}`:            2,
			`ticketing_connections_closed_total{reason="handshake_timeout"}`: 1,
			`ticketing_connections_closed_total{reason="panic"}`:             0,
			`ticketing_refusals_total{reason="connections"}`:                 1,
			"ticketing_connections":                                          9,
		})
	}, "AUTH_SECRET="+secret, "MAX_CONNECTIONS=10")
}
