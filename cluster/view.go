package cluster

import (
	"slices"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// view is what other goroutines may know of the core. It is replaced when any
// of it changes.
type view struct {
	Role     core.Role
	Term     uint64
	Lead     uint64
	Members  []state.Member
	Voters   []uint64
	Learners []uint64
}

func (v *view) member(id uint64) (state.Member, bool) {
	i := slices.IndexFunc(v.Members, func(m state.Member) bool { return m.ID == id })
	if i < 0 {
		return state.Member{}, false
	}
	return v.Members[i], true
}

// publishIf publishes if there is news, or if who leads has changed.
func (n *Node) publishIf(news bool) {
	n.meter.commit.Store(n.core.Commit())
	n.meter.applied.Store(n.core.Machine().Index())
	lead, _ := n.core.Leader()
	if v := n.view.Load(); news || v.Lead != lead || v.Term != n.core.Term() || v.Role != n.core.Role() {
		n.publish()
	}
}

func (n *Node) publish() {
	old := n.view.Load()
	lead, _ := n.core.Leader()
	v := &view{
		Role: n.core.Role(), Term: n.core.Term(), Lead: lead,
		Members:  n.core.Machine().Members(),
		Voters:   slices.Clone(n.core.Conf().GetVoters()),
		Learners: slices.Clone(n.core.Conf().GetLearners()),
	}
	n.view.Store(v)
	if v.Lead != old.Lead && v.Lead != 0 {
		n.meter.leaders.Add(1)
		leader, _ := v.member(v.Lead)
		n.log.Info("a leader is known", "leader", leader.Name, "term", v.Term)
	}
	n.links.membersChanged()
	if _, was := old.member(n.id); was {
		if _, is := v.member(n.id); !is {
			n.stop(errRemoved)
		}
	}
}
