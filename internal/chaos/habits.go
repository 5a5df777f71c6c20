package chaos

import (
	"context"
	"fmt"
	"time"

	"ticketing/client"
)

// How many keys there are. Cold keys are as many as it takes.
const (
	hotKeys  = 3
	warmKeys = 64
)

// strangers is one in how many workers does nothing but come anew: when there
// are two leaders for a moment, somebody must be there who sees the new one.
const strangers = 12

// epoch is how long keys have the same names. A key that somebody's lost call
// may hold proves less than one of which all is known; new names begin anew.
const epoch = 12 * time.Second

// work makes calls until ctx ends. The last one is ended by its own limits, not
// by ctx, so that its outcome is the service's.
func (w *worker) work(ctx context.Context) {
	calls := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		if w.id%strangers == 0 {
			w.strange(calls)
		} else {
			w.habit()(calls)
		}
		w.pause(20 * time.Millisecond)
	}
}

// habit draws what to do next.
func (w *worker) habit() func(context.Context) {
	habits := []struct {
		share int
		do    func(context.Context)
	}{
		{40, w.quick}, {15, w.queue}, {20, w.twice}, {2, w.hoard}, {4, w.forget}, {3, w.late}, {8, w.foreign}, {3, w.leave}, {2, w.forge}, {2, w.strange},
	}
	draw := 0
	for _, h := range habits {
		draw += h.share
	}
	draw = w.random.IntN(draw)
	for _, h := range habits {
		if draw -= h.share; draw < 0 {
			return h.do
		}
	}
	panic("not reached")
}

// quick takes a key for a moment, or not at all.
func (w *worker) quick(ctx context.Context) {
	w.hold(ctx, w.warm(), 0, w.seconds(1, 3), 10*time.Millisecond)
}

// queue waits for a key that others want too, and now and then lets them wait.
func (w *worker) queue(ctx context.Context) {
	most := 30 * time.Millisecond
	if w.random.IntN(8) == 0 {
		most = 600 * time.Millisecond
	}
	w.hold(ctx, w.hot(), w.seconds(1, 4), w.seconds(1, 3), most)
}

// twice takes a key that nobody else knows, and takes it again: the second
// acquire must be granted unless somebody is told that he does not know.
func (w *worker) twice(ctx context.Context) {
	key := fmt.Sprint("cold", w.load.cold.Add(1))
	w.hold(ctx, key, 0, w.seconds(1, 3), time.Millisecond)
	w.hold(ctx, key, 0, w.seconds(1, 3), time.Millisecond)
}

// hoard takes a key that others want and never gives it back.
func (w *worker) hoard(ctx context.Context) { w.acquire(ctx, w.hot(), w.seconds(1, 4), 1) }

// forget takes a key and never gives it back.
func (w *worker) forget(ctx context.Context) { w.acquire(ctx, w.warm(), 0, w.seconds(1, 3)) }

// late gives a key back when its lease has ended, or is just about to.
func (w *worker) late(ctx context.Context) {
	key := w.warm()
	if t := w.acquire(ctx, key, 0, 1); t != nil {
		time.Sleep(time.Until(t.Deadline()) + time.Duration(w.random.IntN(40)-15)*time.Millisecond)
		w.release(key, t.Token(), func() error { return t.Release(ctx) })
	}
}

// foreign takes a key that is given back by another client.
func (w *worker) foreign(ctx context.Context) {
	key := w.warm()
	if t := w.acquire(ctx, key, w.seconds(0, 1), w.seconds(1, 3)); t != nil {
		w.pause(10 * time.Millisecond)
		w.release(key, t.Token(), func() error { return w.other.Release(ctx, key, t.Token()) })
	}
}

// forge gives back a key that somebody else may hold, with a token that was
// never issued for it.
func (w *worker) forge(ctx context.Context) {
	key, token := w.hot(), uint64(w.id+1)
	if t := w.acquire(ctx, fmt.Sprint("cold", w.load.cold.Add(1)), 0, 1); t != nil {
		token = t.Token()
	}
	w.release(key, token, func() error { return w.client.Release(ctx, key, token) })
}

// strange takes a key as somebody who has just come, and knows one node. It is
// given back by somebody who has been there for long, and may take an old leader
// for the leader.
func (w *worker) strange(ctx context.Context) {
	addrs := w.load.addrs
	newcomer, err := client.New(client.Config{
		Addrs: addrs[w.random.IntN(len(addrs)):][:1], DialContext: dialFrom(clientIP(w.id % len(w.load.clients))),
	})
	if err != nil {
		panic(err) // the addresses were good before
	}
	defer newcomer.Close()
	regular := w.client
	w.client = newcomer
	key := fmt.Sprint("cold", w.load.cold.Add(1))
	// Briefly: there may be a node that answers.
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	t := w.acquire(brief, key, 0, w.seconds(1, 3))
	w.client = regular
	if t != nil {
		w.release(key, t.Token(), func() error { return w.client.Release(ctx, key, t.Token()) })
	}
}

// leave waits for a key and then does not any more.
func (w *worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.random.IntN(500))*time.Millisecond)
	defer cancel()
	key := fmt.Sprintf("left%d.%d", w.random.IntN(hotKeys), w.era())
	if t := w.acquire(ctx, key, w.seconds(1, 4), 1); t != nil {
		w.pause(300 * time.Millisecond)
		w.give(context.WithoutCancel(ctx), t)
	}
}

// hold takes a key, has it for a while, and gives it back.
func (w *worker) hold(ctx context.Context, key string, wait, lease int, most time.Duration) {
	if t := w.acquire(ctx, key, wait, lease); t != nil {
		w.pause(most)
		w.give(ctx, t)
	}
}

func (w *worker) give(ctx context.Context, t *client.Ticket) {
	w.release(t.Key(), t.Token(), func() error { return t.Release(ctx) })
}

func (w *worker) warm() string { return fmt.Sprintf("warm%d.%d", w.random.IntN(warmKeys), w.era()) }
func (w *worker) hot() string  { return fmt.Sprintf("hot%d.%d", w.random.IntN(hotKeys), w.era()) }

// era counts the epochs.
func (w *worker) era() int { return int(time.Duration(w.load.clock.now()) / epoch) }

func (w *worker) seconds(least, most int) int { return least + w.random.IntN(most-least+1) }

// pause waits for a while of at most d.
func (w *worker) pause(d time.Duration) { time.Sleep(time.Duration(w.random.Int64N(int64(d)))) }
