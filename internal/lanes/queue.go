package lanes

import "container/heap"

// queues are the queues in which lanes stand.
type queues struct {
	by    [named + 1]queue // request; nothing stands in the one of none
	turns uint64
}

// place moves a lane to the queue of its rule; a lane that needs no move keeps its turn.
func (q *queues) place(l *lane) {
	at, in := l.due()
	if in == l.in && at.Equal(l.when) {
		return
	}
	if l.in != none {
		heap.Remove(&q.by[l.in], l.index)
	}
	q.turns++
	if l.in, l.when, l.turn = in, at, q.turns; in != none {
		heap.Push(&q.by[in], l)
	}
}

// queue is a heap of lanes by the time from which on they are due.
type queue []*lane

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].when.Before(q[j].when) || q[i].when.Equal(q[j].when) && q[i].turn < q[j].turn
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	l := x.(*lane)
	l.index = len(*q)
	*q = append(*q, l)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return l
}
