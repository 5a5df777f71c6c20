package loop

import (
	"errors"

	"ticketing/shard"
)

// ErrStopped says that the server has stopped serving.
var ErrStopped = errors.New("the server has stopped")

var errLoad = errors.New("a loop could not take over its keys")

// leadPart is the part of a LeadState that one loop takes over.
type leadPart []leadKey

type leadKey struct {
	shard.Held
	hash uint64
}

// Lead makes this node serve: each loop takes over the keys of its shard, with
// full leases from now, and then all of them take requests. It returns when they
// do. Turns of the epoch may be submitted before it returns. It must follow the
// Depose of the lead before, and waits until that is done with. After an error,
// too, the lead has to be deposed. state is not used after it returned.
func (srv *Server) Lead(epoch uint64, state shard.LeadState) error {
	srv.changing.Lock()
	defer srv.changing.Unlock()
	if srv.deposed != nil {
		select {
		case <-srv.deposed:
		case <-srv.stopped:
			return ErrStopped
		}
	}
	parts := make([]leadPart, len(srv.loops))
	for h := range state.Keys {
		dst, hash := srv.loops[0].place([]byte(h.Key))
		parts[dst] = append(parts[dst], leadKey{h, hash})
	}
	srv.budgets.Tokens.Reset(state.Counter)
	defer srv.epoch.Store(epoch)
	// Every shard decides before any loop asks one.
	if err := srv.onEveryLoop(func(l *loop) { l.load(epoch, parts[l.idx]) }); err != nil {
		return err
	}
	return srv.onEveryLoop(func(l *loop) { l.replicated.epoch = epoch })
}

// load takes keys over into our shard, which is empty.
func (l *loop) load(epoch uint64, keys leadPart) {
	for _, k := range keys {
		l.shard.Load(l.now, []byte(k.Key), k.hash, k.Token, k.Lease)
	}
	l.replicated.deciding = epoch
	l.replicated.leader = ""
	l.stopWaiting()
}

// Depose ends the lead of an epoch: what is not confirmed is settled as d says,
// the shards are emptied, and every session is told to go. It does not wait for
// that; but for a Lead under way it does. An epoch that is over is ignored.
func (srv *Server) Depose(epoch uint64, d shard.Deposed) {
	srv.changing.Lock()
	defer srv.changing.Unlock()
	if srv.epoch.Load() != epoch {
		return
	}
	srv.epoch.Store(0)
	srv.deposed = make(chan struct{})
	srv.givingUp.Store(int32(len(srv.loops)))
	for _, l := range srv.loops {
		srv.order(l, func() { l.giveUp(d) })
	}
}

// Follow names the client address of the leader, when that is another node;
// empty when none is known.
func (srv *Server) Follow(leader string) {
	for _, l := range srv.loops {
		srv.order(l, func() { l.follow(leader) })
	}
}

// Leading returns the epoch that this node leads with; 0 if it does not, or
// is no node of a cluster.
func (srv *Server) Leading() uint64 { return srv.epoch.Load() }

// onEveryLoop runs f on every loop and returns when all have done it.
func (srv *Server) onEveryLoop(f func(*loop)) error {
	done := make(chan error, len(srv.loops))
	for _, l := range srv.loops {
		if !srv.order(l, func() {
			err := errLoad // unless f returns
			defer func() { done <- err }()
			f(l)
			err = nil
		}) {
			return ErrStopped
		}
	}
	var all error
	for range srv.loops {
		select {
		case err := <-done:
			all = errors.Join(all, err)
		case <-srv.stopped:
			return ErrStopped
		}
	}
	return all
}

// order has l run f, unless the loops are stopping: their descriptors may mean
// something else then.
func (srv *Server) order(l *loop, f func()) bool {
	srv.stopping.RLock()
	defer srv.stopping.RUnlock()
	if srv.isStopped() {
		return false
	}
	l.command(f)
	return true
}

// wake wakes l, unless the loops are stopping.
func (srv *Server) wake(l *loop) {
	srv.stopping.RLock()
	defer srv.stopping.RUnlock()
	if !srv.isStopped() {
		l.attention.wake()
	}
}

func (srv *Server) isStopped() bool {
	select {
	case <-srv.stopped:
		return true
	default:
		return false
	}
}

// refuseOrders makes order and wake do nothing from now on.
func (srv *Server) refuseOrders() {
	srv.stopping.Lock()
	defer srv.stopping.Unlock()
	if !srv.isStopped() {
		close(srv.stopped)
	}
}
