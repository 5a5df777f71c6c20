package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

const (
	one, two, three = "127.0.1.1", "127.0.1.2", "127.0.1.3"
	patience        = 10 * time.Second
)

// listen binds a UDP socket to an address.
func listen(t *testing.T, ip string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(ip)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// arrived sends packets from one socket to another and returns how many came.
// On the loopback interface a packet is there, or dropped, when the write
// returns, which is an error when a rule dropped it.
func arrived(t *testing.T, from, to *net.UDPConn, count int) (n int) {
	t.Helper()
	for range count {
		_, err := from.WriteTo([]byte("x"), to.LocalAddr())
		if err != nil && !errors.Is(err, syscall.EPERM) {
			t.Fatal(err)
		}
		to.SetReadDeadline(time.Now().Add(time.Millisecond))
		if err == nil {
			to.SetReadDeadline(time.Now().Add(patience))
		}
		if _, _, err := to.ReadFrom(make([]byte, 8)); err == nil {
			n++
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	return n
}

// Rules part exactly those they name, in the direction they name, until they
// end; two faults that want the same rule do not end each other's.
func TestCuts(t *testing.T) {
	if !apart(t) {
		return
	}
	n := newNetwork()
	a, b, c := listen(t, one), listen(t, two), listen(t, three)
	check := func(when string, ab, ba, ac int) {
		t.Helper()
		if got := [3]int{arrived(t, a, b, 3), arrived(t, b, a, 3), arrived(t, a, c, 3)}; got != [3]int{ab, ba, ac} {
			t.Errorf("%s: of 3 packets each %v arrived, want %v", when, got, [3]int{ab, ba, ac})
		}
	}
	add := func(rules ...rule) func() {
		t.Helper()
		end, err := n.add(rules...)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("at first", 3, 3, 3)
	endOneWay := add(rule{one, two, dropAll})
	check("cut one way", 0, 3, 3)
	endBoth := add(both(one, two, dropAll)...)
	check("cut both ways", 0, 0, 3)
	endOneWay()
	check("with one of two faults over", 0, 0, 3)
	endBoth()
	check("healed", 3, 3, 3)
}

func TestLoss(t *testing.T) {
	if !apart(t) {
		return
	}
	n := newNetwork()
	a, b := listen(t, one), listen(t, two)
	end, err := n.add(rule{one, two, dropShare(50)})
	if err != nil {
		t.Fatal(err)
	}
	// Of 400 it is less than 100 or more than 300 once in 10^20 times.
	if got := arrived(t, a, b, 400); got < 100 || got > 300 {
		t.Errorf("of 400 packets %d arrived at a loss of 50 %%", got)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if got := arrived(t, a, b, 50); got != 50 {
		t.Errorf("healed, of 50 packets %d arrived", got)
	}
}

func TestResets(t *testing.T) {
	if !apart(t) {
		return
	}
	l, err := net.Listen("tcp", two+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func(from string) (net.Conn, net.Conn) {
		t.Helper()
		out, err := dialFrom(from)(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { out.Close(); in.Close() })
		return out, in
	}
	out, in := dial(one)
	other, otherIn := dial(three)
	if err := reset(one, two); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{out, in} {
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
			t.Errorf("a connection that was reset reads %v", err)
		}
	}
	if _, err := otherIn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	other.SetReadDeadline(time.Now().Add(patience))
	if _, err := other.Read(make([]byte, 1)); err != nil {
		t.Errorf("the connection of another reads %v", err)
	}
	if err := reset(one, two); err != nil {
		t.Errorf("with no connection there: %v", err)
	}
}
