package inhand

import (
	"container/heap"
	"slices"
)

// schedule is a heap of slots by their next time. The table's lock guards it.
type schedule []*slot

// place schedules the slot's next time, and reports whether it is new and the earliest of all.
func (h *schedule) place(s *slot) (first bool) {
	at := s.AskAt
	if at.IsZero() || !s.WriteAt.IsZero() && s.WriteAt.Before(at) {
		at = s.WriteAt
	}
	switch {
	case at.IsZero() && s.scheduleIndex < 0, s.scheduleIndex >= 0 && at.Equal(s.scheduledAt):
		return false
	case at.IsZero():
		heap.Remove(h, s.scheduleIndex)
		return false
	}
	if s.scheduledAt = at; s.scheduleIndex < 0 {
		heap.Push(h, s)
	} else {
		heap.Fix(h, s.scheduleIndex)
	}
	return s.scheduleIndex == 0
}

// slotsInOrder returns the slots with an unwritten outcome in the order in which they come due.
func (h schedule) slotsInOrder() []*slot {
	all := slices.DeleteFunc(slices.Clone(h), func(s *slot) bool { return s.WriteAt.IsZero() })
	slices.SortFunc(all, func(a, b *slot) int { return a.WriteAt.Compare(b.WriteAt) })
	return all
}

func (h schedule) Len() int           { return len(h) }
func (h schedule) Less(i, j int) bool { return h[i].scheduledAt.Before(h[j].scheduledAt) }
func (h schedule) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].scheduleIndex, h[j].scheduleIndex = i, j
}

// Push implements heap.Interface.
func (h *schedule) Push(x any) {
	s := x.(*slot)
	s.scheduleIndex = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *schedule) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.scheduleIndex = -1
	return s
}
