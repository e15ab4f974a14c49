package memory

import (
	"slices"
	"sort"

	"github.com/dltbatch/dltbatch/batch"
)

// namedQueue is an element of queueNames.
type namedQueue interface {
	name() batch.ServiceID
	isEmpty() bool
	setListed(bool) // sets whether the queue is in a queueNames
}

// queueNames keeps queues in the byte order of their names. A reader merges new queues in, and
// removes empty queues at the same time. So adding or emptying a queue does not read all queues.
type queueNames[T namedQueue] struct {
	sorted       []T
	newQueues    []T
	hasManyEmpty bool // true if a reader met many empty queues
}

func (o *queueNames[T]) add(q T) {
	q.setListed(true)
	o.newQueues = append(o.newQueues, q)
}

// queuesAfter returns the queues after a name, or all queues if start is true. Some of them may be
// empty.
func (o *queueNames[T]) queuesAfter(after batch.ServiceID, start bool) []T {
	o.merge()
	if start {
		return o.sorted
	}
	return o.sorted[sort.Search(len(o.sorted), func(i int) bool { return o.sorted[i].name() > after }):]
}

// merge adds the new queues to sorted, and removes empty ones.
func (o *queueNames[T]) merge() {
	if len(o.newQueues) == 0 && !o.hasManyEmpty {
		return
	}
	all := make([]T, 0, len(o.sorted)+len(o.newQueues))
	for _, qs := range [...][]T{o.sorted, o.newQueues} {
		for _, q := range qs {
			if q.isEmpty() {
				q.setListed(false)
				continue
			}
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b T) int { // the slice is nearly sorted, so this is cheap
		switch {
		case a.name() < b.name():
			return -1
		case a.name() > b.name():
			return 1
		}
		return 0
	})
	o.sorted, o.newQueues, o.hasManyEmpty = all, nil, false
}
