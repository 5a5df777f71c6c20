package client

// queue holds the calls that are certainly unsent, under the client's lock.
// Releases go first: they free keys. Calls whose caller has left stay until
// they are taken or make up half of the queue.
type queue struct {
	releases fifo // compensations too
	acquires fifo
	dropped  int     // at most this many entries are callDropped
	next     instant // no entry's deadline is earlier; never when empty
}

func (q *queue) len() int { return q.releases.len() + q.acquires.len() }

func (q *queue) push(k *call) {
	if k.kind == kindAcquire {
		q.acquires.push(k)
	} else {
		q.releases.push(k)
	}
	q.next = min(q.next, k.deadline)
}

// pushFront puts calls that were taken before back, in their order.
func (q *queue) pushFront(calls []*call) {
	var acquires, releases []*call
	for _, k := range calls {
		if k.kind == kindAcquire {
			acquires = append(acquires, k)
		} else {
			releases = append(releases, k)
		}
		q.next = min(q.next, k.deadline)
	}
	q.acquires.pushFront(acquires)
	q.releases.pushFront(releases)
}

// take appends up to n calls to batch.
func (q *queue) take(batch []*call, n int) []*call {
	batch = q.releases.take(batch, n)
	batch = q.acquires.take(batch, n-len(batch))
	if q.len() == 0 {
		q.dropped, q.next = 0, never
	}
	return batch
}

// filter keeps the calls for which keep returns true, in order.
func (q *queue) filter(keep func(*call) bool) {
	q.next, q.dropped = never, 0
	each := func(k *call) bool {
		if !keep(k) {
			return false
		}
		q.next = min(q.next, k.deadline)
		return true
	}
	q.releases.filter(each)
	q.acquires.filter(each)
}

// fifo is a slice that is emptied from its front.
type fifo struct {
	items []*call
	head  int // items before it are nil
}

func (f *fifo) len() int { return len(f.items) - f.head }

func (f *fifo) push(k *call) {
	if f.head > 32 && f.head*2 > len(f.items) && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:]) // reuse the front instead of growing
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, k)
}

func (f *fifo) pushFront(calls []*call) {
	if len(calls) == 0 {
		return
	}
	if f.head < len(calls) {
		f.items = append(append(make([]*call, 0, len(calls)+f.len()), calls...), f.items[f.head:]...)
		f.head = 0
		return
	}
	f.head -= len(calls)
	copy(f.items[f.head:], calls)
}

func (f *fifo) take(dst []*call, n int) []*call {
	n = min(n, f.len())
	taken := f.items[f.head : f.head+n]
	dst = append(dst, taken...)
	clear(taken)
	f.head += n
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return dst
}

func (f *fifo) filter(keep func(*call) bool) {
	kept := f.items[:0]
	for _, k := range f.items[f.head:] {
		if keep(k) {
			kept = append(kept, k)
		}
	}
	clear(f.items[len(kept):])
	f.items, f.head = kept, 0
}
