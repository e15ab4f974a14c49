package memory

import (
	"slices"
	"sort"

	"github.com/dltbatch/dltbatch/batch"
)

// queue is an element of names.
type queue interface {
	name() batch.ServiceID
	empty() bool
	list(bool) // sets whether it is in a names
}

// names keeps queues in byte order. A reader merges new queues in, and drops empty queues at
// the same time, so that adding or emptying a queue costs no pass over all queues.
type names[T queue] struct {
	sorted []T
	fresh  []T
	stale  bool // a reader met many empty queues
}

func (o *names[T]) add(q T) {
	q.list(true)
	o.fresh = append(o.fresh, q)
}

// from returns all queues after a name, or all; some may be empty.
func (o *names[T]) from(after batch.ServiceID, start bool) []T {
	o.merge()
	if start {
		return o.sorted
	}
	return o.sorted[sort.Search(len(o.sorted), func(i int) bool { return o.sorted[i].name() > after }):]
}

// merge makes sorted complete.
func (o *names[T]) merge() {
	if len(o.fresh) == 0 && !o.stale {
		return
	}
	all := make([]T, 0, len(o.sorted)+len(o.fresh))
	for _, qs := range [...][]T{o.sorted, o.fresh} {
		for _, q := range qs {
			if q.empty() {
				q.list(false)
				continue
			}
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b T) int { // nearly sorted, and so cheap
		switch {
		case a.name() < b.name():
			return -1
		case a.name() > b.name():
			return 1
		}
		return 0
	})
	o.sorted, o.fresh, o.stale = all, nil, false
}
