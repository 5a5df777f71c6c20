package bench

import (
	"fmt"
	"strconv"

	"ticketing/codec"
)

// Reply kinds, as tallies and results have them.
const (
	granted = iota
	timeout
	busy
	released
	notHeld
	kinds
)

// handle judges a reply and goes on with its slot.
func (c *conn) handle(r *codec.Reply, now int64) {
	switch r.Op {
	case codec.OpGranted:
		c.handleGranted(r, now)
	case codec.OpTimeout, codec.OpBusy:
		c.handleRefused(r, now)
	case codec.OpReleased, codec.OpNotHeld:
		c.handleEnded(r, now)
	case codec.OpMoved:
		c.end(fmt.Errorf("the server is not the leader (M), which is at %s", quoted(r.Text)))
	case codec.OpLeadershipLost:
		c.end(fmt.Errorf("the server is no longer the leader (L), which is at %s", quoted(r.Text)))
	case codec.OpError:
		c.end(fmt.Errorf("the server ended it: E %s", oneLine(r.Text)))
	}
}

// oneLine keeps what a server sent from breaking a message's line.
func oneLine(text []byte) string {
	quoted := strconv.QuoteToGraphic(string(text))
	return quoted[1 : len(quoted)-1]
}

// attempt returns the slot whose acquire a reply is about, or nil.
func (c *conn) attempt(r *codec.Reply) (i uint16, s *slot) {
	i = uint16(r.Owner & (1<<slotBits - 1))
	if int(i) >= len(c.slots) {
		return 0, nil
	}
	s = &c.slots[i]
	if s.state != acquiring || s.sent == 0 || s.owner != r.Owner || !c.w.names.is(r.Text, s.key) {
		return 0, nil
	}
	return i, s
}

func (c *conn) handleGranted(r *codec.Reply, now int64) {
	i, s := c.attempt(r)
	if s == nil {
		c.unmatched(r, now)
		return
	}
	w := c.w
	w.round = append(w.round, grant{
		key: s.key, owner: s.owner, token: r.Token, floor: s.floor, sent: s.sent, received: now,
	})
	g := &w.round[len(w.round)-1]
	s.token, s.granted = r.Token, now
	s.begun = w.verify.granted(g)
	if c.turns != nil {
		c.judgeTurn(g)
	}
	w.floor = max(w.floor, r.Token)
	w.record(granted, s, now)
	switch {
	case w.hold == 0 || w.phase == draining:
		c.release(i, w.dueNow(now), r.Text)
	default:
		s.state = holding
		w.holds.push(held{at: now + w.hold, conn: c, slot: i, token: r.Token})
	}
}

// judgeTurn reports a grant that overtook one that was queued before it.
func (c *conn) judgeTurn(g *grant) {
	t := &c.turns[int(g.key)&(len(c.turns)-1)]
	if t.token != 0 && t.key == g.key && t.owner > g.owner {
		if g.token > t.token && !g.overtaken { // by one between which and this no other connection was granted the key
			c.w.verify.outOfTurn(g, t.owner, t.token)
		}
		return
	}
	t.key, t.owner, t.token = g.key, g.owner, g.token
}

func (c *conn) handleRefused(r *codec.Reply, now int64) {
	i, s := c.attempt(r)
	if s == nil {
		c.unmatched(r, now)
		return
	}
	kind := busy
	if r.Op == codec.OpTimeout {
		kind = timeout
		c.w.verify.timedOut(s.key, c.id, s.owner, s.sent, now)
	}
	c.w.record(kind, s, now)
	c.finish(i)
}

func (c *conn) handleEnded(r *codec.Reply, now int64) {
	w := c.w
	found := c.releases.take(c.slots, r.Token, w.names, r.Text)
	if found < 0 {
		c.unmatched(r, now)
		return
	}
	s := &c.slots[found]
	e := ended{
		key: s.key, conn: c.id, token: s.token,
		begun: s.begun, granted: s.granted, sent: s.sent, received: now,
	}
	if r.Op == codec.OpReleased {
		w.verify.released(&e)
		w.record(released, s, now)
	} else {
		w.verify.notHeld(&e)
		w.record(notHeld, s, now)
	}
	c.finish(uint16(found))
}

// finish ends an attempt; in the closed loop the slot begins the next one.
func (c *conn) finish(i uint16) {
	w, s := c.w, &c.slots[i]
	s.state = idle
	w.open--
	if s.measured {
		w.pending--
	}
	if w.rate > 0 {
		w.free.push(free{c, i})
	} else if w.mayBegin() {
		c.acquire(i, 0)
	}
}

// unmatched reports a reply to nothing that is asked, and says what it comes
// nearest to.
func (c *conn) unmatched(r *codec.Reply, now int64) {
	v := Violation{Kind: Unmatched, Key: string(r.Text), Connections: []int{int(c.id)}, Times: []float64{seconds(now)}}
	what := fmt.Sprintf("%c for key %s", r.Op, quoted(r.Text))
	switch r.Op {
	case codec.OpGranted:
		v.Tokens, v.Owners = []uint64{r.Token}, []string{ownerText(r.Owner)}
		what += fmt.Sprintf(", token %d, owner %#x", r.Token, r.Owner)
	case codec.OpTimeout, codec.OpBusy:
		v.Owners = []string{ownerText(r.Owner)}
		what += fmt.Sprintf(", owner %#x", r.Owner)
	default:
		v.Tokens = []uint64{r.Token}
		what += fmt.Sprintf(", token %d", r.Token)
	}
	v.Text = fmt.Sprintf("connection %d got %s at %s: %s", c.id, what, instant(now), c.nearest(r))
	c.w.verify.found.add(v)
}

func (c *conn) nearest(r *codec.Reply) string {
	if r.Op == codec.OpReleased || r.Op == codec.OpNotHeld {
		for i := range c.slots {
			if s := &c.slots[i]; s.state == releasing && s.token == r.Token {
				return fmt.Sprintf("the release of this token is for key %q", c.w.names.name(s.key))
			}
		}
		return "no release of this token is under way on this connection"
	}
	i := r.Owner & (1<<slotBits - 1)
	home := connOf(r.Owner)
	switch number := r.Owner >> slotBits & (1<<turnBits - 1); {
	case home != int(c.id) && home < c.w.cfg.Connections && int(i) < len(c.slots):
		return fmt.Sprintf("the owner is one of connection %d", home)
	case home != int(c.id) || int(i) >= len(c.slots) || number >= c.next:
		return "there never was such an owner"
	case c.slots[i].owner != r.Owner || c.slots[i].state != acquiring:
		return "this attempt was answered before"
	case c.slots[i].sent == 0:
		return "this attempt is not sent yet"
	}
	return fmt.Sprintf("this owner asks for key %q", c.w.names.name(c.slots[i].key))
}
