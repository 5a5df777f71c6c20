package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// When the process stood still past the moment a verdict was due, the verdict
// may lie unread in the socket: it is looked for before the session is closed,
// once.
func TestClient_2_7_AfterAStallTheSocketIsReadFirst(t *testing.T) {
	for _, tc := range []struct {
		late time.Duration // of the keeper
		kept bool
	}{{0, false}, {stallLimit - 1, false}, {stallLimit, true}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer there.Close()
			go func() { // a server that reads and says nothing
				var b [100]byte
				for {
					if _, err := there.Read(b[:]); err != nil {
						return
					}
				}
			}()
			c, err := New(Config{Addrs: []string{"a:1"}, Sessions: 1,
				DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ended := make(chan error, 1)
			go func() {
				_, err := c.Acquire(t.Context(), "k", 0, Wait(time.Second))
				ended <- err
			}()
			synctest.Wait()
			c.mu.Lock()
			s := c.live[0]
			c.mu.Unlock()
			overdue := instant(0).add(time.Second + settleGrace)
			next := s.sweep(overdue.add(tc.late))
			synctest.Wait()
			select {
			case err := <-ended:
				if tc.kept || !errors.Is(err, ErrIndeterminate) {
					t.Fatalf("%v late: %v", tc.late, err)
				}
				return
			default:
			}
			if again := overdue.add(tc.late + settleGrace); !tc.kept || next != again {
				t.Fatalf("%v late: looked at again at %v, want %v", tc.late, next, again)
			}
			s.sweep(next.add(time.Hour)) // not a second time
			if err := <-ended; !errors.Is(err, ErrIndeterminate) {
				t.Fatal(err)
			}
		})
	}
}
