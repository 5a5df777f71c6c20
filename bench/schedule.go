package bench

// schedule says when attempts of the open loop are due: attempt n of a thread at
// first + n*gap, however late the ones before it were.
type schedule struct {
	first float64 // ns
	gap   float64 // ns between two attempts of this thread
	n     int64   // attempts that were begun
}

// newSchedule is the part of thread i of all when together they begin rate
// attempts a second from start on: in turns, so that all of them are evenly spread.
func newSchedule(start int64, rate float64, i, all int) schedule {
	each := 1e9 / rate
	return schedule{first: float64(start) + each*float64(i), gap: each * float64(all)}
}

// due is the instant of the next attempt.
func (s *schedule) due() int64 { return int64(s.first + s.gap*float64(s.n)) }

// missed returns how many attempts are due before the instant and not begun.
func (s *schedule) missed(before int64) (n int64) {
	late := float64(before) - (s.first + s.gap*float64(s.n))
	if late <= 0 {
		return 0
	}
	n = int64(late / s.gap)
	if int64(s.first+s.gap*float64(s.n+n)) < before {
		n++
	}
	return n
}
