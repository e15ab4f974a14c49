package queuer

import (
	"container/heap"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// hints are the lanes that may have something to do: at once, in the order in
// which they were named, or at a later time. A lane is in it once.
type hints struct {
	ready []batch.ServiceID
	later waiting
	due   map[batch.ServiceID]time.Time // zero: in ready
}

func newHints() *hints { return &hints{due: map[batch.ServiceID]time.Time{}} }

// add names a lane for at; a time that is not after now is at once. The earlier
// of two times wins.
func (h *hints) add(s batch.ServiceID, at, now time.Time) {
	known, ok := h.due[s]
	switch {
	case !at.After(now):
		if ok && known.IsZero() {
			return
		}
		h.due[s] = time.Time{}
		h.ready = append(h.ready, s)
	case ok && !known.After(at): // a zero time is earlier than any
	default:
		h.due[s] = at
		heap.Push(&h.later, wait{at, s})
	}
}

// take returns up to n lanes whose time has come, in order.
func (h *hints) take(n int, now time.Time) []batch.ServiceID {
	h.promote(now)
	n = min(n, len(h.ready))
	out := append([]batch.ServiceID(nil), h.ready[:n]...)
	h.ready = h.ready[n:]
	if len(h.ready) == 0 {
		h.ready = nil
	}
	for _, s := range out {
		delete(h.due, s)
	}
	return out
}

// next returns when the first lane becomes ready: zero for now, ok false for never.
func (h *hints) next(now time.Time) (at time.Time, ok bool) {
	h.promote(now)
	if len(h.ready) > 0 {
		return time.Time{}, true
	}
	if len(h.later) > 0 {
		return h.later[0].at, true
	}
	return time.Time{}, false
}

func (h *hints) promote(now time.Time) {
	for len(h.later) > 0 {
		w := h.later[0]
		if at, ok := h.due[w.service]; ok && at.Equal(w.at) {
			if w.at.After(now) {
				return
			}
			h.due[w.service] = time.Time{}
			h.ready = append(h.ready, w.service)
		} // else it was named again for an earlier time
		heap.Pop(&h.later)
	}
}

type wait struct {
	at      time.Time
	service batch.ServiceID
}

type waiting []wait

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(x any)        { *w = append(*w, x.(wait)) }
func (w *waiting) Pop() any {
	old := *w
	x := old[len(old)-1]
	*w = old[:len(old)-1]
	return x
}
