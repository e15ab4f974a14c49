package inhand

import (
	"container/heap"
	"slices"
)

// schedule is a heap of slots by their next time. It is used under the table's lock.
type schedule []*slot

// plan schedules the slot's next time, and reports whether it is new, and before all others.
func (h *schedule) plan(s *slot) (first bool) {
	at := s.Ask
	if at.IsZero() || !s.Due.IsZero() && s.Due.Before(at) {
		at = s.Due
	}
	switch {
	case at.IsZero() && s.index < 0, s.index >= 0 && at.Equal(s.at):
		return false
	case at.IsZero():
		heap.Remove(h, s.index)
		return false
	}
	if s.at = at; s.index < 0 {
		heap.Push(h, s)
	} else {
		heap.Fix(h, s.index)
	}
	return s.index == 0
}

// waiting returns the slots with an unwritten outcome in the order in which they come due.
func (h schedule) waiting() []*slot {
	all := slices.DeleteFunc(slices.Clone(h), func(s *slot) bool { return s.Due.IsZero() })
	slices.SortFunc(all, func(a, b *slot) int { return a.Due.Compare(b.Due) })
	return all
}

func (h schedule) Len() int           { return len(h) }
func (h schedule) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h schedule) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *schedule) Push(x any) {
	s := x.(*slot)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *schedule) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = -1
	return s
}
