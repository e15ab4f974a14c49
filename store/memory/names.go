package memory

import (
	"slices"
	"sort"

	"github.com/dltbatch/dltbatch/batch"
)

// namedQueue is an element of names.
type namedQueue interface {
	name() batch.ServiceID
	empty() bool
	setListed(bool) // sets whether it is in a names
}

// queueNames keeps queues in byte order. A reader merges new queues in, and drops empty queues at
// the same time, so that adding or emptying a queue costs no pass over all queues.
type queueNames[T namedQueue] struct {
	sorted    []T
	newQueues []T
	manyEmpty bool // a reader met many empty queues
}

func (o *queueNames[T]) add(q T) {
	q.setListed(true)
	o.newQueues = append(o.newQueues, q)
}

// queuesAfter returns all queues after a name, or all; some may be empty.
func (o *queueNames[T]) queuesAfter(after batch.ServiceID, start bool) []T {
	o.merge()
	if start {
		return o.sorted
	}
	return o.sorted[sort.Search(len(o.sorted), func(i int) bool { return o.sorted[i].name() > after }):]
}

// merge makes sorted complete.
func (o *queueNames[T]) merge() {
	if len(o.newQueues) == 0 && !o.manyEmpty {
		return
	}
	all := make([]T, 0, len(o.sorted)+len(o.newQueues))
	for _, qs := range [...][]T{o.sorted, o.newQueues} {
		for _, q := range qs {
			if q.empty() {
				q.setListed(false)
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
	o.sorted, o.newQueues, o.manyEmpty = all, nil, false
}
