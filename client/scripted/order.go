package scripted

import (
	"slices"
	"time"

	"ticketing/codec"
)

// Order is what a server does with one frame.
type Order struct {
	read int // bytes of the frame to read before act; -1: all of it
	act  func(c *Conn, f Frame, send func(reply []byte))
}

func whole(act func(*Conn, Frame, func([]byte))) Order { return Order{read: -1, act: act} }

// Func is an order of the test's own. It runs on the connection's reader:
// while it does, the connection reads nothing.
func Func(act func(c *Conn, f Frame)) Order {
	return whole(func(c *Conn, f Frame, _ func([]byte)) { act(c, f) })
}

// Honest treats the frame as a real server does.
func Honest() Order {
	return whole(func(c *Conn, f Frame, send func([]byte)) {
		if f.Op == codec.OpAcquire {
			c.srv.table.acquire(c, f, send)
		} else {
			c.srv.table.release(f, send)
		}
	})
}

// Grant answers A with this token.
func Grant(token uint64) Order {
	return reply(func(f Frame) []byte { return codec.AppendGranted(nil, token, f.ID, f.Key) })
}

// Timeout answers T.
func Timeout() Order {
	return reply(func(f Frame) []byte { return codec.AppendTimeout(nil, f.ID, f.Key) })
}

// Busy answers B.
func Busy() Order {
	return reply(func(f Frame) []byte { return codec.AppendBusy(nil, f.ID, f.Key) })
}

// Released answers R.
func Released() Order {
	return reply(func(f Frame) []byte { return codec.AppendReleased(nil, f.ID, f.Key) })
}

// NotHeld answers N.
func NotHeld() Order {
	return reply(func(f Frame) []byte { return codec.AppendNotHeld(nil, f.ID, f.Key) })
}

// Raw answers with these bytes, whatever they are.
func Raw(frame []byte) Order { return reply(func(Frame) []byte { return frame }) }

func reply(make func(Frame) []byte) Order {
	return whole(func(_ *Conn, f Frame, send func([]byte)) { send(make(f)) })
}

// Silent never answers.
func Silent() Order { return whole(func(*Conn, Frame, func([]byte)) {}) }

// After carries out o when d has passed, unless the connection has ended.
// Frames behind it are not held up. For an answer after the deadline, d is
// longer than the frame's wait.
func After(d time.Duration, o Order) Order {
	return whole(func(c *Conn, f Frame, send func([]byte)) {
		c.srv.wg.Go(func() {
			timer := time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
				if !c.hasEnded() {
					o.act(c, f, send)
				}
			case <-c.gone:
			}
		})
	})
}

// Then carries out several orders for one frame, one after another.
func Then(orders ...Order) Order {
	return whole(func(c *Conn, f Frame, send func([]byte)) {
		for _, o := range orders {
			o.act(c, f, send)
		}
	})
}

// Unasked sends a frame that answers nothing, and then carries out o.
func Unasked(frame []byte, o Order) Order { return Then(Raw(frame), o) }

// Moved answers M and closes (protocol §9).
func Moved(addr string) Order { return Then(Raw(codec.AppendMoved(nil, addr)), End()) }

// LeadershipLost answers L and closes (protocol §9).
func LeadershipLost(addr string) Order {
	return Then(Raw(codec.AppendLeadershipLost(nil, addr)), End())
}

// Error answers E with this reason, one of the eight or not, and closes
// (protocol §6).
func Error(reason string) Order { return Then(Raw([]byte("E"+reason+"\n")), End()) }

// End closes the connection once every reply so far has gone out.
func End() Order { return whole(func(c *Conn, _ Frame, _ func([]byte)) { c.End() }) }

// CutBefore closes, when the frame's turn has come, without reading a byte of
// it. This and the next two let the replies to earlier frames go out first.
func CutBefore() Order { return CutInside(0) }

// CutInside closes after it has read n bytes of the frame.
func CutInside(n int) Order { return Order{read: n, act: cut} }

// CutAfter closes after it has read the frame, without an answer.
func CutAfter() Order { return Order{read: -1, act: cut} }

// cut lets the replies to earlier frames go out first.
func cut(c *Conn, _ Frame, _ func([]byte)) {
	c.Flush()
	c.Cut()
}

// CutReply carries out o. Of its reply n bytes go out; then it closes.
func CutReply(n int, o Order) Order {
	return whole(func(c *Conn, f Frame, send func([]byte)) {
		o.act(c, f, func(frame []byte) {
			send(frame[:min(n, len(frame))])
			c.End()
		})
	})
}

// Stall reads n bytes of the frame and then nothing more, and neither answers
// nor closes: the client's Write blocks. The test ends it by Conn.Cut.
func Stall(n int) Order { return Order{read: n, act: stall} }

func stall(c *Conn, _ Frame, _ func([]byte)) { <-c.gone }

// Hold carries out o and keeps its reply back until a Flush.
func Hold(o Order) Order {
	return whole(func(c *Conn, f Frame, _ func([]byte)) {
		o.act(c, f, func(frame []byte) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.held = append(c.held, slices.Clone(frame))
		})
	})
}

// Flush carries out o and then sends what Hold has kept back, last first.
func Flush(o Order) Order {
	return whole(func(c *Conn, f Frame, send func([]byte)) {
		o.act(c, f, send)
		c.mu.Lock()
		held := c.held
		c.held = nil
		c.mu.Unlock()
		for _, frame := range slices.Backward(held) {
			send(frame)
		}
	})
}

// Reorder carries out these orders for as many frames, and sends their replies
// in reverse when the last frame has arrived.
func Reorder(orders ...Order) []Order {
	all := make([]Order, len(orders))
	for i, o := range orders {
		all[i] = Hold(o)
	}
	if n := len(orders); n > 0 {
		all[n-1] = Flush(orders[n-1])
	}
	return all
}
