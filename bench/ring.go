package bench

// ring is a queue that grows as needed and never shrinks.
type ring[T any] struct {
	items []T // a power of two of them
	head  int // of the first
	count int
}

func (r *ring[T]) len() int { return r.count }

func (r *ring[T]) push(item T) {
	if r.count == len(r.items) {
		grown := make([]T, max(16, 2*len(r.items)))
		n := copy(grown, r.items[r.head:])
		copy(grown[n:], r.items[:r.head])
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.count)&(len(r.items)-1)] = item
	r.count++
}

// front is the first item of a ring that is not empty.
func (r *ring[T]) front() *T { return &r.items[r.head] }

func (r *ring[T]) pop() (item T, ok bool) {
	if r.count == 0 {
		return item, false
	}
	var none T
	item, r.items[r.head] = r.items[r.head], none
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.count--
	return item, true
}
