package core

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"ticketing/shard"
)

// Whatever turns are made of, and whoever is cut off for how long: turns are
// confirmed in their order, none without a majority, and all in the end, or the
// lead was lost and they are accounted for.
func TestTurnsAreConfirmedInOrderOrDeposed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newNet(t, 3)
		n := w.elect(1)
		var seq [loops]uint64
		var frozen [loops]uint64 // what was confirmed when the majority was lost
		token := uint64(0)
		alone := false
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 80).Draw(rt, "steps")
		for _, step := range steps {
			if n.Role() != Leading {
				break
			}
			loop := step % loops
			switch {
			case step < 4: // records
				seq[loop]++
				token++
				n.Submit(shard.Turn{Loop: loop, Seq: seq[loop], Epoch: n.epoch, Records: grant(fmt.Sprint(token), token), Read: step < 2})
			case step < 6:
				seq[loop]++
				n.Submit(shard.Turn{Loop: loop, Seq: seq[loop], Epoch: n.epoch, Read: true})
			case step == 6:
				w.pass(1)
			case step == 7:
				w.settle()
			case step == 8:
				w.settle()
				alone = !alone
				w.cut[2], w.cut[3] = alone, alone
				frozen = n.confirmed
			case step == 9:
				w.tick(1)
			}
			if alone && n.confirmed != frozen {
				t.Fatalf("confirmed %v without a majority; %v were before", n.confirmed, frozen)
			}
		}
		clear(w.cut)
		w.settle()
		w.tick(2)
		if len(n.deposes) == 0 {
			if n.confirmed != seq {
				t.Fatalf("confirmed %v of %v", n.confirmed, seq)
			}
			if passes, waiting := n.Unconfirmed(); passes+waiting != 0 {
				t.Fatalf("%d passes and %d turns are left", passes, waiting)
			}
			if n.Machine().Len() != int(token) {
				t.Fatalf("%d keys, want %d", n.Machine().Len(), token)
			}
			return
		}
		for loop, p := range n.deposes[0].Proposed {
			if p > seq[loop] || p < n.confirmed[loop] && p != 0 {
				t.Fatalf("loop %d: %d proposed, %d confirmed, %d submitted", loop, p, n.confirmed[loop], seq[loop])
			}
		}
	})
}

// More passes than the queue was made for wait for a majority, in order.
func TestManyPassesWait(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[2], w.cut[3] = true, true
	const many = 1000
	for i := uint64(1); i <= many; i++ {
		records := grant(fmt.Sprint(i), i)
		if i%3 == 0 {
			records = nil
		}
		n.submit(int(i%loops), (i+1)/loops, records)
		w.pass(1)
	}
	if passes, _ := n.Unconfirmed(); passes != many {
		t.Fatalf("%d passes wait", passes)
	}
	if n.confirmed != [loops]uint64{} {
		t.Fatalf("confirmed %v", n.confirmed)
	}
	clear(w.cut)
	w.tick(3)
	if n.confirmed != [loops]uint64{many / 2, many / 2} {
		t.Errorf("confirmed %v", n.confirmed)
	}
	w.equal()
}

// A turn larger than an entry should be is an entry of its own, and the next
// turns are in the next.
func TestLargeTurnsAreSeveralEntries(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	before := n.Machine().Index()
	key := make([]byte, 100)
	token := uint64(0)
	for seq := uint64(1); seq <= 3; seq++ {
		var records []byte
		for len(records) < maxEntry*2/3 {
			token++
			copy(key, fmt.Sprintf("%0100d", token))
			records = append(records, grant(string(key), token)...)
		}
		n.submit(0, seq, records)
	}
	w.settle()
	if got := n.Machine().Index() - before; got != 2 {
		t.Errorf("%d entries", got)
	}
	if n.confirmed[0] != 3 || n.Machine().Len() != int(token) {
		t.Errorf("confirmed %d, %d keys of %d", n.confirmed[0], n.Machine().Len(), token)
	}
}

// A majority that answers to an earlier question has not answered a later one.
func TestReadIsProvedByItsOwnQuestion(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, nil)
	w.pass(1) // the followers have the question
	w.cut[2], w.cut[3] = true, true
	n.submit(1, 1, nil)
	w.pass(1) // and not this one
	clear(w.cut)
	w.pass(2)
	for n.HasReady() {
		w.pass(1)
	}
	if n.confirmed != [loops]uint64{1, 0} {
		t.Errorf("confirmed %v, want the first read alone", n.confirmed)
	}
	w.tick(1)
	if n.confirmed != [loops]uint64{1, 1} {
		t.Errorf("confirmed %v after a heartbeat", n.confirmed)
	}
}

// A turn that asks nobody does not overtake one that waits for an answer, on
// whatever loop.
func TestSilentTurnWaitsBehindARead(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[2], w.cut[3] = true, true
	n.submit(0, 1, nil)
	w.settle()
	n.Submit(shard.Turn{Loop: 1, Seq: 1, Epoch: n.epoch})
	w.settle()
	if n.confirmed != [loops]uint64{} {
		t.Errorf("confirmed %v", n.confirmed)
	}
}

// What a node says about its disk waits for the disk; what it proposes does not.
func TestAnswersWaitForTheDisk(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	r, err := n.Ready()
	if err != nil || !r.MustSync || len(r.Entries) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	sent := 0
	for _, m := range r.Messages {
		sent += len(m.GetEntries())
	}
	if sent != 2 {
		t.Errorf("the entry went to %d followers before it was on the leader's disk", sent)
	}
	w.send(1, r.Messages)
	r, err = w.nodes[2].Ready()
	if err != nil || !r.MustSync || len(r.Messages) != 0 {
		t.Errorf("a follower sends %v before it has written (%v)", r.Messages, err)
	}
	if after := w.nodes[2].Persisted(); len(after) != 1 || after[0].GetIndex() != n.Machine().Index()+1 {
		t.Errorf("then it sends %v", after)
	}
}

// Turns of a lead that has ended are dropped, even when the node leads again.
func TestTurnsOfAnEpochThatIsOverAreDropped(t *testing.T) {
	w := newNet(t, 1)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	n.submit(0, 2, grant("a", 2)) // does not fit
	w.settle()
	if n.epoch != 2 {
		t.Fatalf("epoch %d", n.epoch)
	}
	n.Submit(shard.Turn{Loop: 0, Seq: 3, Epoch: 1, Records: grant("b", 3)})
	w.settle()
	if n.Machine().Len() != 0 || n.confirmed[0] != 0 {
		t.Errorf("%d keys, confirmed %d", n.Machine().Len(), n.confirmed[0])
	}
}
