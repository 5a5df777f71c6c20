package bench

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// answering is a server that reads a release and answers always the same.
func answering(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			io.ReadFull(conn, make([]byte, len("R--------ticketing/bench\n")))
			io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	return ln.Addr().String()
}

// Of several nodes the one that leads is loaded, if need be one that only
// another node knows.
func TestTheLeaderIsFound(t *testing.T) {
	leader := serve(t, nil)
	follower := answering(t, "M"+leader+"\n")
	lost := answering(t, "Eno_leader\n")
	for name, addrs := range map[string][]string{
		"first":       {leader, lost},
		"last":        {lost, follower, leader},
		"pointed to":  {lost, follower},
		"seen before": {follower, leader},
	} {
		cfg := small(leader)
		cfg.Addrs = addrs
		result, err := Run(t.Context(), cfg)
		if err != nil || result.Counts.Released != cfg.Ops || result.Setup.Addr != leader {
			t.Errorf("%s: %v %+v", name, err, result)
		}
	}
}

func TestNoLeaderIsFound(t *testing.T) {
	lost := answering(t, "Eno_leader\n")
	one := answering(t, "M127.0.0.1:1\n")
	circle := answering(t, "M"+one+"\n")
	for says, addrs := range map[string][]string{
		"E no_leader":                  {lost, answering(t, "Eno_leader\n")},
		"connection refused":           {one, lost},
		"it does not lead, 127.0.0.1:": {circle, one},
		"is answered with R":           {answering(t, "R\x00\x00\x00\x00\x00\x00\x00\x00ticketing/bench\n"), lost},
		"EOF":                          {answering(t, ""), lost},
	} {
		cfg := small(lost)
		cfg.Addrs = addrs
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrNoSession) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
