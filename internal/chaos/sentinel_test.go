package chaos

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"ticketing/codec"
)

// A waiter sees the M that the official client hides.
func TestSentinelHearsM(t *testing.T) {
	if !apart(t) {
		return
	}
	n := &node{name: "n1", ip: one}
	l, err := net.Listen("tcp", n.clientAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tell := make(chan struct{})
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		in.ReadString('k')
		in.ReadByte()
		c.Write(codec.AppendGranted(nil, 7, 1, []byte("k")))
		in.ReadString('k')
		<-tell
		c.Write(codec.AppendMoved(nil, "127.0.1.2:7400"))
	}()
	s, err := post(t.Context(), n, "k")
	if err != nil {
		t.Fatal(err)
	}
	close(tell)
	if said, took, err := s.told(); said != "M127.0.1.2:7400" || err != nil || took > notLater {
		t.Errorf("told %q, %v, after %v", said, err, took)
	}
}

// Without a word from the node a waiter does not wait for ever.
func TestSentinelWithoutAWord(t *testing.T) {
	if !apart(t) {
		return
	}
	n := &node{name: "n1", ip: one}
	l, err := net.Listen("tcp", n.clientAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := post(t.Context(), n, "k"); err == nil {
		t.Error("a node that says nothing granted a key")
	}
}

func TestGap(t *testing.T) {
	t0 := time.Now()
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	p := &pulse{}
	for _, ms := range []int{0, 10, 20, 70, 80, 200} {
		p.grants = append(p.grants, beat{at(ms - 1), at(ms)})
	}
	for _, c := range []struct{ from, until, want int }{
		{0, 20, 10}, {0, 80, 50}, {15, 30, 10}, {25, 60, 35}, {80, 150, 70}, {0, 300, 120},
	} {
		if got := p.gap(at(c.from), at(c.until)); got != time.Duration(c.want)*time.Millisecond {
			t.Errorf("from %d to %d ms: %v, want %d ms", c.from, c.until, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	few := func(ms ...int) (all []time.Duration) {
		for _, n := range ms {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	for _, c := range []struct {
		kills, transfers, usuals []time.Duration
		ok                       bool
	}{
		{few(1500, 3000, 700), few(50, 10, 400), few(5, 5, 5), true},
		{few(1501, 1501, 700), few(10, 10, 10), few(5, 5, 5), false},
		{few(700, 700, 3001), few(10, 10, 10), few(5, 5, 5), false},
		{few(700, 700, 700), few(51, 51, 10), few(20, 20, 20), false},
		{few(700, 700, 700), few(51, 51, 10), few(21, 21, 20), true}, // not judged
	} {
		if err := verdict(io.Discard, c.kills, c.transfers, c.usuals); (err == nil) != c.ok {
			t.Errorf("%v, %v, %v: %v", c.kills, c.transfers, c.usuals, err)
		}
	}
}
