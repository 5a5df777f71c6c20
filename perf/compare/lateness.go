package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"ticketing/codec"
)

// lateness is how long after an end its consequence is received, in µs.
type lateness struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	What  string  `json:"what"`
	Count int     `json:"count"`
	Min   float64 `json:"min_us"` // below 0: early
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
}

const (
	leaseEnds = "A of the first waiter, after the lease's end"
	waitEnds  = "T, after the wait's end"
)

// measureLateness has leases and waits of one second end, some every millisecond.
func measureLateness(o *options) (all []lateness, err error) {
	n := 2000
	if o.quick {
		n = 300
	}
	for _, s := range []subject{ticketing(1), ticketing(2)} {
		p, err := s.start(o)
		if err != nil {
			return nil, err
		}
		leases, waits, err := lateBy(p, n)
		if ended := p.stop(); err == nil {
			err = ended
		}
		if err != nil {
			return nil, fmt.Errorf("lateness: %w", err)
		}
		for _, l := range []lateness{latenessOf(s, leaseEnds, leases), latenessOf(s, waitEnds, waits)} {
			o.say("%-30s %-45s min %.0f p50 %.0f p99 %.0f max %.0f µs", l.Title, l.What, l.Min, l.P50, l.P99, l.Max)
			all = append(all, l)
		}
	}
	return all, nil
}

func latenessOf(s subject, what string, late []time.Duration) lateness {
	slices.Sort(late)
	at := func(q float64) float64 { return micros(int64(late[int(q*float64(len(late)-1))])) }
	return lateness{s.id, s.title, what, len(late), at(0), at(.5), at(.99), at(1)}
}

// What the owners of the probe say: two low bits for the role of an attempt, the
// rest for its number.
const (
	holds = iota // takes a key for a second
	next         // waits for the key until that lease ends
	tries        // waits a second for a key that is held all the while
	keeps        // holds that one
)

// lateBy measures n ends of each kind. Both are counted from before the request
// was written, so the true lateness is less: a lease begins when the holder is
// granted, a wait when its acquire is read.
func lateBy(p *process, n int) (leases, waits []time.Duration, err error) {
	conn, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20*time.Second + time.Duration(n)*2*time.Millisecond)); err != nil {
		return nil, nil, err
	}
	const second = 1
	sent := make([]time.Time, n)
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(codec.AppendAcquire(nil, keeps, 0, 250, "kept"))
		for i := 0; i < n && err == nil; i++ {
			owner, key := uint64(i)<<2, fmt.Sprint("lease-", i)
			sent[i] = time.Now()
			var b []byte
			b = codec.AppendAcquire(b, owner|holds, 0, second, key)
			b = codec.AppendAcquire(b, owner|next, 10, second, key)
			b = codec.AppendAcquire(b, owner|tries, second, 30, "kept")
			_, err = conn.Write(b)
			time.Sleep(time.Millisecond)
		}
		written <- err
	}()
	in := bufio.NewReader(conn)
	for len(leases) < n || len(waits) < n {
		op, owner, err := readOutcome(in)
		if err != nil {
			return nil, nil, fmt.Errorf("%d leases and %d waits have ended: %w", len(leases), len(waits), err)
		}
		late := time.Since(sent[min(owner>>2, uint64(n-1))]) - second*time.Second
		switch role := owner & 3; {
		case op == codec.OpGranted && role == next:
			leases = append(leases, late)
		case op == codec.OpTimeout && role == tries:
			waits = append(waits, late)
		case op == codec.OpGranted && (role == holds || role == keeps):
		default:
			return nil, nil, fmt.Errorf("an unexpected %c of owner %d", op, owner)
		}
	}
	return leases, waits, <-written
}

// readOutcome reads an A or a T.
func readOutcome(in *bufio.Reader) (op codec.Op, owner uint64, err error) {
	var head [17]byte
	if _, err := io.ReadFull(in, head[:9]); err != nil {
		return 0, 0, err
	}
	op, owner = codec.Op(head[0]), binary.BigEndian.Uint64(head[1:])
	if op == codec.OpGranted {
		if _, err := io.ReadFull(in, head[9:]); err != nil {
			return 0, 0, err
		}
		owner = binary.BigEndian.Uint64(head[9:])
	}
	_, err = in.ReadSlice('\n')
	return op, owner, err
}
