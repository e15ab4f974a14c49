package lanes

import "container/heap"

// queues has the queues of lanes.
type queues struct {
	byRequest [requestNamed + 1]queue // one queue for each request; that of requestNone is empty
	tieBreaks uint64
}

// place moves a lane to the queue that its rule wants. A lane that needs no move keeps its turn.
func (q *queues) place(l *lane) {
	at, in := l.due()
	if in == l.queuedFor && at.Equal(l.dueAt) {
		return
	}
	if l.queuedFor != requestNone {
		heap.Remove(&q.byRequest[l.queuedFor], l.queueIndex)
	}
	q.tieBreaks++
	if l.queuedFor, l.dueAt, l.tieBreak = in, at, q.tieBreaks; in != requestNone {
		heap.Push(&q.byRequest[in], l)
	}
}

// queue is a heap of lanes by the time at which they are due.
type queue []*lane

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].dueAt.Before(q[j].dueAt) || q[i].dueAt.Equal(q[j].dueAt) && q[i].tieBreak < q[j].tieBreak
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].queueIndex, q[j].queueIndex = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	l := x.(*lane)
	l.queueIndex = len(*q)
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
