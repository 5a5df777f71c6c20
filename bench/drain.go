package bench

import (
	"fmt"
	"time"
)

// hastyDrain bounds the drain of a run that was told to stop.
const hastyDrain = 2 * time.Second

// overdue reports whether the answer to the request of a slot should have come.
// What is still unwritten, because the server does not read, is not.
func (w *worker) overdue(c *conn, s *slot) bool {
	patience := w.cfg.Patience
	if s.state == acquiring {
		patience += w.cfg.Wait
	}
	return s.sent != 0 && c.written == len(c.out) && w.now-s.sent > int64(patience)
}

// underWay calls f for every request without an answer.
func (w *worker) underWay(f func(*conn, *slot)) {
	for _, c := range w.conns {
		if c.ended {
			continue
		}
		for i := range c.slots {
			if s := &c.slots[i]; s.state == acquiring || s.state == releasing {
				f(c, s)
			}
		}
	}
}

// allOverdue reports whether there is nothing left to wait for. It looks at
// every slot, and so only now and then.
func (w *worker) allOverdue() bool {
	if w.now < w.nextLook {
		return false
	}
	w.nextLook = w.now + int64(idlePoll)
	all := w.holds.len() == 0
	w.underWay(func(c *conn, s *slot) { all = all && w.overdue(c, s) })
	return all
}

// finish judges what is still under way, closes the connections and hands over
// what was found out last.
func (w *worker) finish() {
	w.underWay(func(c *conn, s *slot) {
		if !w.overdue(c, s) {
			w.unanswered++
			return
		}
		name := w.names.name(s.key)
		v := Violation{Kind: Lost, Key: name, Connections: []int{int(c.id)}, Times: []float64{seconds(w.now), seconds(s.sent)}}
		what := fmt.Sprintf("the acquire of owner %#x, waiting at most %v", s.owner, w.cfg.Wait)
		if s.state == releasing {
			v.Tokens = []uint64{s.token}
			what = fmt.Sprintf("the release of token %d", s.token)
		} else {
			v.Owners = []string{ownerText(s.owner)}
		}
		v.Text = fmt.Sprintf("key %q: %s, sent at %s on connection %d, is not answered at %s", name, what, instant(s.sent), c.id, instant(w.now))
		w.verify.found.add(v)
	})
	for _, c := range w.conns {
		if !c.ended {
			c.ended = true
			link(c.fd).close()
		}
	}
	w.handOver(w.now)
}
