package core

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/state"
	"ticketing/shard"
)

func TestLeaderServesAfterAnEntryOfItsOwnTerm(t *testing.T) {
	w := newNet(t, 3)
	n := w.nodes[1]
	n.Campaign()
	for id := uint64(0); n.Role() == Follower; id++ {
		w.pass(id%3 + 1)
	}
	if n.Role() != Elected || len(n.leads) != 0 {
		t.Fatalf("right after the election the node is %v, want elected", n.Role())
	}
	n.submit(0, 1, grant("early", 1))
	w.settle()
	if n.Role() != Leading || len(n.leads) != 1 || n.leads[0].Epoch != 1 {
		t.Fatalf("the node is %v and was told to lead %d times", n.Role(), len(n.leads))
	}
	if n.confirmed[0] != 0 || n.Machine().Len() != 0 {
		t.Error("a turn from before the lead was taken")
	}
	if w.nodes[2].follow != "c1" || w.nodes[3].follow != "c1" || n.follow != "" {
		t.Errorf("followers were told %q and %q, the leader %q", w.nodes[2].follow, w.nodes[3].follow, n.follow)
	}
}

func TestTurnsOfAPassAreOneEntry(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	before := n.Machine().Index()
	n.submit(0, 1, grant("a", 1))
	n.submit(1, 1, grant("b", 2))
	n.submit(0, 2, grant("c", 3))
	w.settle()
	if n.confirmed != [loops]uint64{2, 1} {
		t.Errorf("confirmed %v", n.confirmed)
	}
	if got := n.Machine().Index() - before; got != 1 {
		t.Errorf("%d entries for one pass", got)
	}
	w.tick(1)
	w.equal()
	if n.Machine().Len() != 3 {
		t.Errorf("%d keys are held, want 3", n.Machine().Len())
	}
}

func TestNothingIsConfirmedWithoutAMajority(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[2], w.cut[3] = true, true
	n.submit(0, 1, grant("a", 1))
	n.submit(1, 1, nil)
	w.settle()
	n.submit(1, 2, nil)
	w.settle()
	if n.confirmed != [loops]uint64{} {
		t.Fatalf("confirmed %v without a majority", n.confirmed)
	}
	w.cut[2] = false
	w.tick(2)
	if n.confirmed != [loops]uint64{1, 2} {
		t.Errorf("confirmed %v with a majority, want 1 and 2", n.confirmed)
	}
}

func TestReadsTakeAReadIndexAndNoEntry(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	before := n.Machine().Index()
	n.submit(0, 1, nil)
	n.submit(1, 1, nil)
	w.settle()
	if n.confirmed != [loops]uint64{1, 1} || n.Machine().Index() != before || n.Counters().Reads != 1 {
		t.Errorf("confirmed %v, %d entries, %d read indexes", n.confirmed, n.Machine().Index()-before, n.Counters().Reads)
	}
	w.cut[2], w.cut[3] = true, true
	n.submit(0, 2, nil)
	w.settle()
	if n.confirmed[0] != 1 {
		t.Error("a read was confirmed by a leader that is cut off")
	}
}

// A turn that reveals nothing keeps its place in the order and asks nobody.
func TestSilentTurnsKeepTheirPlace(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[2], w.cut[3] = true, true
	n.Submit(shard.Turn{Loop: 0, Seq: 1, Epoch: n.epoch})
	w.settle()
	if n.confirmed[0] != 1 {
		t.Error("a turn with nothing to prove waits")
	}
	n.submit(0, 2, grant("a", 1))
	w.settle()
	n.Submit(shard.Turn{Loop: 0, Seq: 3, Epoch: n.epoch})
	w.settle()
	if n.confirmed[0] != 1 {
		t.Errorf("turn %d overtook one that is not confirmed", n.confirmed[0])
	}
}

func TestDeposedLeaderSaysWhatMayYetBeApplied(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[1] = true
	n.submit(0, 1, grant("a", 1))
	w.settle()
	w.elect2(t, 2)
	w.cut[1] = false
	n.submit(0, 2, grant("b", 2)) // it does not know yet
	w.tick(3)
	if len(n.deposes) != 1 || n.Role() != Follower {
		t.Fatalf("deposed %d times, the node is %v", len(n.deposes), n.Role())
	}
	d := n.deposes[0]
	if d.Epoch != 1 || d.Proposed[1] != 0 || d.Proposed[0] < 1 {
		t.Errorf("%+v", d)
	}
	if n.confirmed[0] != 0 || n.follow != "c2" {
		t.Errorf("confirmed %d, follows %q", n.confirmed[0], n.follow)
	}
	w.equal()
	if n.Machine().Len() != 0 {
		t.Error("an entry that no majority had is applied")
	}
}

// elect2 lets the others elect a node while the leader is cut off.
func (w *net) elect2(t *testing.T, id uint64) {
	t.Helper()
	for range 3 * electionTicks { // until the followers do not believe in the old leader any more
		for id, n := range w.nodes {
			if !w.cut[id] {
				n.Tick()
			}
		}
		w.settle()
		if w.nodes[id].Role() == Leading {
			return
		}
		for other, n := range w.nodes {
			if other != id && !w.cut[other] && n.Role() == Leading {
				if err := n.Transfer(id); err != nil {
					t.Fatal(err)
				}
				w.settle()
			}
		}
	}
	if w.nodes[id].Role() != Leading {
		t.Fatalf("node %d is %v", id, w.nodes[id].Role())
	}
}

func TestTransferHandsOverWhatIsConfirmedAndNothingElse(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	if r, err := n.Ready(); err != nil || len(r.Entries) != 1 {
		t.Fatal("nothing was proposed", err)
	} else {
		w.send(1, r.Messages)
	}
	if err := n.Transfer(0); err != nil {
		t.Fatal(err)
	}
	n.submit(0, 2, grant("b", 2))
	w.send(1, n.Persisted())
	w.settle()
	if n.Role() != Follower || n.confirmed[0] != 1 {
		t.Fatalf("the old leader is %v and has confirmed %d", n.Role(), n.confirmed[0])
	}
	if p := n.deposes[0].Proposed[0]; p != 1 {
		t.Errorf("turn %d is said to be proposed, want 1", p)
	}
	if w.nodes[2].Role() != Leading && w.nodes[3].Role() != Leading {
		t.Error("nobody leads")
	}
	w.tick(1)
	w.equal()
}

// A server whose node hands the lead over can send its clients on at once.
func TestTransferNamesTheNextLeader(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	next, _ := n.Machine().Member(2)
	if err := n.Transfer(2); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if got := n.deposes[0].Leader; next.Client == "" || got != next.Client {
		t.Errorf("the leader is said to be at %q, want %q", got, next.Client)
	}
	if n.follow != next.Client {
		t.Errorf("it follows %q", n.follow)
	}
}

// If that node does not lead after all, the word is taken back.
func TestNextLeaderThatDoesNotLead(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	if err := n.Transfer(2); err != nil {
		t.Fatal(err)
	}
	w.pass(1) // 2 is told
	w.pass(2) // 2 asks for votes
	w.cut[2], w.cut[3] = true, true
	w.pass(1)
	if n.Role() != Follower || n.deposes[0].Leader == "" {
		t.Fatalf("%v, the leader is said to be at %q", n.Role(), n.deposes[0].Leader)
	}
	n.follow = "still"
	w.tick(electionTicks - 1)
	if n.follow != "still" {
		t.Errorf("taken back too early")
	}
	w.tick(1)
	if n.follow != "" {
		t.Error("a leader that is none is still named")
	}
}

func TestTransferToTheDeadIsGivenUp(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	if err := n.Transfer(3); err != nil {
		t.Fatal(err)
	}
	w.cut[3] = true
	n.submit(0, 1, grant("a", 1))
	w.tick(electionTicks + 2)
	if n.gaveUp != 1 || n.confirmed[0] != 1 || n.Role() != Leading {
		t.Errorf("given up %d times, confirmed %d, %v", n.gaveUp, n.confirmed[0], n.Role())
	}
}

func TestEntryThatDoesNotFitDeposesAndTheNodeLeadsAgain(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	n.Ready()
	n.Persisted()
	n.submit(0, 2, grant("a", 2)) // held
	n.Ready()
	n.Persisted()
	n.submit(0, 3, grant("b", 3)) // proposed before anybody knows
	w.tick(2)
	if len(n.deposes) != 1 || len(n.leads) != 2 || n.Role() != Leading {
		t.Fatalf("deposed %d times, led %d times, %v", len(n.deposes), len(n.leads), n.Role())
	}
	if n.confirmed[0] != 1 || n.deposes[0].Proposed[0] != 3 {
		t.Errorf("confirmed %d, proposed %v", n.confirmed[0], n.deposes[0].Proposed)
	}
	if n.leads[1].Epoch <= n.leads[0].Epoch {
		t.Errorf("epochs %d and %d", n.leads[0].Epoch, n.leads[1].Epoch)
	}
	if n.Machine().Len() != 2 || n.Counters().Misfits != 1 {
		t.Errorf("%d keys, %d misfits", n.Machine().Len(), n.Counters().Misfits)
	}
	n.submit(0, 4, grant("c", 4))
	w.tick(1)
	if n.confirmed[0] != 4 {
		t.Error("the second epoch confirms nothing")
	}
	w.equal()
}

func TestNewcomerLearnsThenVotes(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	n.submit(0, 1, grant("a", 1))
	w.settle()
	w.start(4, raft.NewMemoryStorage())
	if err := n.AddLearner(state.Member{ID: 4, Name: "n4", Client: "c4"}); err != nil {
		t.Fatal(err)
	}
	w.tick(4 * promoteTicks)
	if got := len(n.Conf().GetVoters()); got != 4 {
		t.Fatalf("%d voters, want 4", got)
	}
	w.equal()
	if m, ok := w.nodes[4].Machine().Member(4); !ok || m.Client != "c4" {
		t.Errorf("the newcomer knows %+v of itself", m)
	}
	if err := n.Transfer(4); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if w.nodes[4].Role() != Leading {
		t.Fatalf("the newcomer is %v", w.nodes[4].Role())
	}
	if err := w.nodes[4].Remove(1); err != nil {
		t.Fatal(err)
	}
	w.tick(2)
	if got := len(w.nodes[4].Conf().GetVoters()); got != 3 {
		t.Errorf("%d voters after the removal, want 3", got)
	}
	if _, ok := w.nodes[4].Machine().Member(1); ok {
		t.Error("the removed member is still known")
	}
}

func TestSnapshotOfAnotherVersionIsRefused(t *testing.T) {
	w := newNet(t, 3)
	s := genesis(t, 3)
	s.Data[7]++ // the version
	s.Metadata.Index = new(uint64(100))
	err := w.nodes[2].Step(&raftpb.Message{Type: raftpb.MsgSnap.Enum(), From: new(uint64(1)), To: new(uint64(2)),
		Term: new(uint64(5)), Snapshot: s})
	if err == nil {
		t.Fatal("it was taken")
	}
	if w.nodes[2].Machine().Index() != 3 {
		t.Error("it was loaded")
	}
}

// What this node's own server did not decide is not proposed.
func TestOthersProposeNothingHere(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	before := n.Machine().Index()
	for _, kind := range []raftpb.MessageType{raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgTransferLeader} {
		m := &raftpb.Message{Type: kind.Enum(), From: new(uint64(2)), To: new(uint64(1)), Entries: []*raftpb.Entry{{Data: grant("a", 1)}}}
		if err := n.Step(m); !errors.Is(err, ErrIgnored) {
			t.Errorf("%v: %v", kind, err)
		}
	}
	w.settle()
	if n.Machine().Index() != before || n.Role() != Leading {
		t.Errorf("%d entries, %v", n.Machine().Index()-before, n.Role())
	}
}

// A node that answers is active at every tick, also when raft has just checked
// its majority; one that does not is active no more.
func TestActiveMeansHeardOfLately(t *testing.T) {
	w := newNet(t, 3)
	n := w.elect(1)
	w.cut[3] = true
	for tick := range 3 * electionTicks {
		w.tick(1)
		for p := range n.Others() {
			if want := p.ID == 2; p.Active != want && (want || tick > electionTicks) {
				t.Fatalf("after %d ticks node %d is active: %v", tick+1, p.ID, p.Active)
			}
		}
		n.Tick() // before anybody can answer
		for p := range n.Others() {
			if p.ID == 2 && !p.Active {
				t.Fatalf("after %d ticks node 2, which answers, is not active", tick+1)
			}
		}
	}
}
