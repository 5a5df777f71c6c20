package scripted_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"ticketing/client/scripted"
	"ticketing/codec"
)

// peer is a client that sends and reads bytes.
type peer struct {
	*testing.T
	srv  *scripted.Server
	conn net.Conn
}

func bubble(t *testing.T, prepare func(*scripted.Server), f func(p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := scripted.New()
		defer srv.Close()
		if prepare != nil {
			prepare(srv)
		}
		p := &peer{T: t, srv: srv}
		p.conn = p.dial()
		f(p)
	})
}

func (p *peer) dial() net.Conn {
	p.Helper()
	conn, err := p.srv.DialContext(p.Context(), "tcp", "a:1")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { conn.Close() })
	return conn
}

func (p *peer) send(frames ...[]byte) {
	p.Helper()
	if _, err := p.conn.Write(bytes.Join(frames, nil)); err != nil {
		p.Fatal(err)
	}
}

// want reads exactly these bytes.
func (p *peer) want(frames ...[]byte) {
	p.Helper()
	want := bytes.Join(frames, nil)
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.conn, got)
	if err != nil || !bytes.Equal(got, want) {
		p.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

// wantEnd wants the end of the stream and nothing before it.
func (p *peer) wantEnd() {
	p.Helper()
	rest, err := io.ReadAll(p.conn)
	if err != nil || len(rest) > 0 {
		p.Fatalf("read %q, %v; want the end", rest, err)
	}
}

// wantSilence wants nothing for an hour.
func (p *peer) wantSilence() {
	p.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(time.Hour))
	var one [1]byte
	if n, err := p.conn.Read(one[:]); n > 0 || !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		p.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	_ = p.conn.SetReadDeadline(time.Time{})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func script(orders ...scripted.Order) func(*scripted.Server) {
	return func(srv *scripted.Server) { srv.Script(orders...) }
}

func acquire(owner uint64) []byte { return codec.AppendAcquire(nil, owner, 10, 30, "k") }

func TestOrdersThatAnswer(t *testing.T) {
	bubble(t, script(
		scripted.Grant(7), scripted.Timeout(), scripted.Busy(), scripted.Released(), scripted.NotHeld(),
		scripted.Raw([]byte("raw\n")), scripted.Unasked([]byte("unasked\n"), scripted.Busy()),
		scripted.Then(scripted.Timeout(), scripted.Timeout()),
		scripted.Func(func(c *scripted.Conn, f scripted.Frame) { c.Send([]byte(f.Key + "\n")) }),
	), func(p *peer) {
		for owner := range uint64(3) {
			p.send(acquire(owner))
		}
		p.want(codec.AppendGranted(nil, 7, 0, "k"), codec.AppendTimeout(nil, 1, "k"), codec.AppendBusy(nil, 2, "k"))
		p.send(codec.AppendRelease(nil, 8, "k"), codec.AppendRelease(nil, 9, "k"))
		p.want(codec.AppendReleased(nil, 8, "k"), codec.AppendNotHeld(nil, 9, "k"))
		p.send(acquire(3), []byte("\n"), acquire(4), acquire(5), acquire(6)) // keep-alives use up no order
		p.want([]byte("raw\nunasked\n"), codec.AppendBusy(nil, 4, "k"),
			codec.AppendTimeout(nil, 5, "k"), codec.AppendTimeout(nil, 5, "k"), []byte("k\n"))
		p.send(acquire(10)) // the script is over: honest
		p.want(codec.AppendGranted(nil, 1, 10, "k"))
		frames := p.srv.Frames()
		if len(frames) != 10 || frames[3].Op != codec.OpRelease || frames[3].ID != 8 || frames[9].Wait != 10 || frames[9].Lease != 30 {
			t.Fatalf("frames %+v", frames)
		}
	})
}

func TestOrdersThatDelay(t *testing.T) {
	bubble(t, script(scripted.Silent(), scripted.After(3*time.Second, scripted.Busy()), scripted.Timeout()), func(p *peer) {
		start := time.Now()
		p.send(acquire(1), acquire(2), acquire(3))
		p.want(codec.AppendTimeout(nil, 3, "k")) // not held up
		if time.Since(start) != 0 {
			t.Fatal("late")
		}
		p.want(codec.AppendBusy(nil, 2, "k"))
		if time.Since(start) != 3*time.Second {
			t.Fatalf("after %v", time.Since(start))
		}
		p.wantSilence()
	})
}

func TestOrdersThatReorder(t *testing.T) {
	bubble(t, script(append(
		scripted.Reorder(scripted.Busy(), scripted.Timeout(), scripted.Grant(7)),
		scripted.Hold(scripted.Busy()), scripted.Timeout(), scripted.Flush(scripted.Silent()))...,
	), func(p *peer) {
		p.send(acquire(1), acquire(2))
		p.wantSilence()
		p.send(acquire(3))
		p.want(codec.AppendGranted(nil, 7, 3, "k"), codec.AppendTimeout(nil, 2, "k"), codec.AppendBusy(nil, 1, "k"))
		p.send(acquire(4), acquire(5))
		p.want(codec.AppendTimeout(nil, 5, "k"))
		p.wantSilence()
		p.send(acquire(6))
		p.want(codec.AppendBusy(nil, 4, "k"))
	})
}

func TestOrdersThatEndTheConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		order scripted.Order
		want  string
	}{
		"M":        {scripted.Moved("b:1"), "Mb:1\n"},
		"L":        {scripted.LeadershipLost("b:1"), "Lb:1\n"},
		"E":        {scripted.Error("no_leader"), "Eno_leader\n"},
		"End":      {scripted.Then(scripted.Raw([]byte("x")), scripted.End()), "x"},
		"after":    {scripted.CutAfter(), ""},
		"reply":    {scripted.CutReply(3, scripted.Raw([]byte("12345"))), "123"},
		"reply, 0": {scripted.CutReply(0, scripted.Busy()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, script(tc.order), func(p *peer) {
				p.send(acquire(1))
				p.want([]byte(tc.want))
				p.wantEnd()
				synctest.Wait()
				if !p.srv.Conns()[0].Ended() || p.srv.Open() != 0 {
					t.Fatal("the server thinks it is open")
				}
			})
		})
	}
	t.Run("what is behind the end is ignored", func(t *testing.T) {
		bubble(t, script(scripted.Error("bad_key")), func(p *peer) {
			p.send(acquire(1), acquire(2))
			p.want([]byte("Ebad_key\n"))
			synctest.Wait()
			if len(p.srv.Frames()) != 1 || p.srv.Granted("k") != 0 {
				t.Fatalf("frames %+v", p.srv.Frames())
			}
		})
	})
}

func TestOrdersThatReadPartOfAFrame(t *testing.T) {
	for _, n := range []int{0, 1, 7, 12} { // the frame has 13 bytes
		bubble(t, script(scripted.Grant(7), scripted.CutInside(n)), func(p *peer) {
			p.send(acquire(1))
			p.want(codec.AppendGranted(nil, 7, 1, "k"))
			got, err := p.conn.Write(acquire(2))
			if got != n || err == nil {
				t.Fatalf("Write passed %d bytes on, %v; want %d and an error", got, err, n)
			}
		})
		bubble(t, script(scripted.Stall(n)), func(p *peer) {
			_ = p.conn.SetWriteDeadline(time.Now().Add(time.Hour))
			if got, err := p.conn.Write(acquire(1)); got != n || !isTimeout(err) {
				t.Fatalf("Write passed %d bytes on, %v; want %d and a timeout", got, err, n)
			}
			p.srv.Conns()[0].Cut()
			p.wantEnd()
		})
	}
	if n, err := func() (n int, err error) {
		bubble(t, script(scripted.CutBefore()), func(p *peer) { n, err = p.conn.Write(acquire(1)) })
		return
	}(); n != 0 || err == nil {
		t.Fatalf("Write passed %d bytes on, %v", n, err)
	}
}

func TestMalformedFramesGetTheirError(t *testing.T) {
	for frame, want := range map[string]string{
		"X": "Ebad_op\n",
		"A\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01k\n": "Ebad_lease\n",
		"R\x00\x00\x00\x00\x00\x00\x00\x01\n":          "Ebad_key\n",
	} {
		bubble(t, nil, func(p *peer) {
			p.send([]byte(frame))
			p.want([]byte(want))
			p.wantEnd()
		})
	}
}
