package lanes

// queue is a heap of lanes by the time from which on they are worth a look.
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
