//go:build debug

package shard

import "testing"

func TestDebugBites(t *testing.T) {
	for name, second := range map[string]func(*Shard, Session){
		"park":  func(s *Shard, who Session) { a := attempt("k"); a.Session = who; s.Acquire(start, a) },
		"leave": func(s *Shard, who Session) { s.Leave(start, who) },
	} {
		s := newShard(10, 10, 10)
		expect(t, s, start, attempt("k"), Granted)
		expect(t, s, start, attempt("k"), Parked)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a slot's next user, whose former never left, did not panic", name)
				}
			}()
			second(s, Session{Gen: 1})
		}()
	}
}
