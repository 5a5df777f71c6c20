package loop

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ticketing/cluster/state"
	"ticketing/codec"
	"ticketing/shard"
)

// stormLog is a replicated log without nodes: it agrees to what it likes, when it
// likes, in the order in which turns came, and takes the lead away and gives it
// back. What it agrees to must fit the replicated state, always.
type stormLog struct {
	t   *testing.T
	srv *Server

	mu       sync.Mutex
	machine  *state.Machine
	index    uint64
	epoch    uint64
	queue    []shard.Turn // of this epoch, not proposed
	proposed []shard.Turn // and not agreed
	highest  []uint64     // by loop: the last turn proposed
	granted  map[string]uint64
	released map[uint64]bool
}

func (s *stormLog) Submit(t shard.Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Epoch == s.epoch {
		s.queue = append(s.queue, t)
	}
}

// agree commits the first n proposed turns, as one entry; confirm says whether
// the server hears of it.
func (s *stormLog) agree(n int, confirm bool) {
	var records [][]byte
	for _, t := range s.proposed[:n] {
		records = append(records, t.Records)
		for b := t.Records; len(b) > 0; {
			r, size, _ := shard.ParseRecord(b)
			switch r.Kind {
			case shard.RecordGrant:
				s.granted[string(r.Key)] = r.Token
			case shard.RecordRelease:
				s.released[r.Token] = true
			}
			b = b[size:]
		}
	}
	if n > 0 {
		s.index++
		if err := s.machine.Apply(s.index, s.epoch, state.EncodeBatch(nil, state.Header{Proposer: 1, Boot: 1, Seq: s.index}, records...)); err != nil {
			s.t.Errorf("entry %d: %v", s.index, err)
		}
	}
	if confirm {
		for _, t := range s.proposed[:n] {
			s.srv.Confirm(t.Loop, t.Seq)
		}
	}
	s.proposed = s.proposed[n:]
}

// step proposes some of the turns and agrees to some of those proposed.
func (s *stormLog) step(r *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := r.IntN(len(s.queue) + 1)
	for _, t := range s.queue[:n] {
		t.Records = append([]byte(nil), t.Records...) // it may be looked at after the next lead began
		s.proposed = append(s.proposed, t)
		s.highest[t.Loop] = t.Seq
	}
	s.queue = s.queue[n:]
	s.agree(r.IntN(len(s.proposed)+1), true)
}

// newLead loses the lead, with any part of what was proposed agreed to, and
// takes it up again.
func (s *stormLog) newLead(r *rand.Rand) {
	s.mu.Lock()
	epoch, d := s.epoch, shard.Deposed{Proposed: append([]uint64(nil), s.highest...)}
	if r.IntN(2) == 0 {
		d.Leader = elsewhere
	}
	if epoch != 0 {
		s.agree(r.IntN(len(s.proposed)+1), false)
	}
	s.epoch++
	s.queue, s.proposed = nil, nil
	lead := shard.LeadState{Counter: s.machine.Counter()}
	held := []shard.Held{}
	for h := range s.machine.Held {
		held = append(held, shard.Held(h))
	}
	s.mu.Unlock()
	if epoch != 0 {
		s.srv.Depose(epoch, d)
		if d.Leader == "" && r.IntN(2) == 0 {
			s.srv.Follow(elsewhere)
		}
	}
	lead.Keys = func(yield func(shard.Held) bool) {
		for _, h := range held {
			if !yield(h) {
				return
			}
		}
	}
	if err := s.srv.Lead(epoch+1, lead); err != nil {
		s.t.Errorf("lead %d: %v", epoch+1, err)
	}
}

// stormClient asks for keys that nobody else asks for, each once, and for a few
// that all ask for; it keeps what it was told.
type stormClient struct {
	name    string
	random  *rand.Rand
	owner   uint64
	granted map[string]uint64 // keys of its own that A said it has
	undone  []string          // keys of its own that M or E said it has not
	gone    []uint64          // tokens that R said are released
	kept    []uint64          // tokens that M or E said are not released by it

	attempts map[uint64]string // under way: by owner
	releases map[uint64]bool   // under way: by token
	hold     map[string]uint64
}

// live asks over one connection until it ends.
func (c *stormClient) live(p *peer, most int) (goOn bool) {
	c.attempts, c.releases = map[uint64]string{}, map[uint64]bool{}
	for c.owner < uint64(most) || len(c.attempts)+len(c.releases) > 0 {
		var b []byte
		for len(c.attempts) < 8 && c.owner < uint64(most) {
			c.owner++
			key, wait := fmt.Sprintf("%s-%d", c.name, c.owner), uint8(0)
			if c.random.IntN(3) == 0 {
				key, wait = fmt.Sprint("shared-", c.random.IntN(3)), 200
			}
			c.attempts[c.owner] = key
			b = codec.AppendAcquire(b, c.owner, wait, 1+uint8(c.random.IntN(250)), key)
		}
		for key, token := range c.hold {
			if len(key) < 7 || key[:7] != "shared-" {
				if c.random.IntN(2) == 0 {
					continue
				}
			}
			c.releases[token] = true
			delete(c.hold, key)
			b = codec.AppendRelease(b, token, key)
		}
		if len(b) > 0 {
			if _, err := p.Write(b); err != nil {
				return true
			}
		}
		r, err := p.read()
		if err != nil {
			return true // what is unanswered is not known
		}
		switch r.Op {
		case codec.OpGranted:
			key := c.attempts[r.Owner]
			delete(c.attempts, r.Owner)
			c.hold[key] = r.Token
			if key[0] != 's' {
				c.granted[key] = r.Token
			}
		case codec.OpTimeout, codec.OpBusy:
			delete(c.attempts, r.Owner)
		case codec.OpReleased:
			delete(c.releases, r.Token)
			c.gone = append(c.gone, r.Token)
		case codec.OpNotHeld:
			delete(c.releases, r.Token) // its grant's lease may be over
		case codec.OpMoved, codec.OpError:
			for _, key := range c.attempts {
				if key[0] != 's' {
					c.undone = append(c.undone, key)
				}
			}
			for token := range c.releases {
				c.kept = append(c.kept, token)
			}
			return true
		case codec.OpLeadershipLost:
			return true
		}
	}
	return false
}

// In a storm of leads every answer is true: what was granted or released is in
// the log, and what was said not to have been done is not.
func TestStormOfLeads(t *testing.T) {
	eachSize(t, func(t *testing.T, loops int) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		log := &stormLog{t: t, machine: state.New(), highest: make([]uint64, loops), granted: map[string]uint64{}, released: map[uint64]bool{}}
		log.srv = startServer(t, func(c *Config) { c.Loops, c.MaxKeys, c.Replica = loops, ClusterMaxKeys, log })
		log.newLead(random)

		var clients []*stormClient
		var asking sync.WaitGroup
		for i := range 6 {
			c := &stormClient{name: fmt.Sprint("c", i), random: rand.New(rand.NewPCG(seed, uint64(i+1))), granted: map[string]uint64{}, hold: map[string]uint64{}}
			clients = append(clients, c)
			asking.Go(func() {
				for goOn := true; goOn; {
					p := dial(t, log.srv)
					goOn = c.live(p, 400)
					p.Close()
				}
			})
		}
		over := make(chan struct{})
		go func() { asking.Wait(); close(over) }()
		leads := 0
		for done := false; !done; {
			select {
			case <-over:
				done = true
			case <-time.After(time.Duration(random.IntN(300)) * time.Microsecond):
			}
			log.step(random)
			if leads < 60 && random.IntN(30) == 0 {
				log.newLead(random)
				leads++
			}
		}
		granted, undone := 0, 0
		for _, c := range clients {
			granted, undone = granted+len(c.granted), undone+len(c.undone)
			for key, token := range c.granted {
				if log.granted[key] != token {
					t.Errorf("%s was granted under %d; in the log it is under %d", key, token, log.granted[key])
				}
			}
			for _, key := range c.undone {
				if token := log.granted[key]; token != 0 {
					t.Errorf("%s was said not to be granted; in the log it is, under %d", key, token)
				}
			}
			for _, token := range c.gone {
				if !log.released[token] {
					t.Errorf("token %d was said to be released; in the log it is not", token)
				}
			}
			for _, token := range c.kept {
				if log.released[token] {
					t.Errorf("token %d was said not to be released; in the log it is", token)
				}
			}
		}
		t.Logf("%d leads, %d granted, %d not done", leads, granted, undone)
		if granted == 0 || undone == 0 {
			t.Errorf("%d granted, %d not done: the storm shows nothing", granted, undone)
		}
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		go func() { // the drain needs what is under way settled
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					log.mu.Lock()
					log.proposed, log.queue = append(log.proposed, log.queue...), nil
					log.agree(len(log.proposed), true)
					log.mu.Unlock()
				}
			}
		}()
		eventually(t, "the sessions are gone", func() bool { return log.srv.live.Load() == 0 })
		wantNothingLeft(t, log.srv)
	})
}
