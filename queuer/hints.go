package queuer

import (
	"container/heap"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// hints are the lanes that may have work: at once, in the order in which they were named, or
// at a later time. Lanes that a scan found are kept apart: most of them have no work, and must
// not hold up named lanes. Each lane is in hints once.
type hints struct {
	ready []batch.ServiceID
	found []*wait // a place with another index than inFound has left
	finds int     // places in found that have not left
	later waiting
	due   map[batch.ServiceID]*wait
}

// wait is a lane's place: its index in later or, if negative, inReady or inFound.
type wait struct {
	service batch.ServiceID
	at      time.Time
	index   int
}

const (
	inReady = -1 - iota
	inFound
)

func newHints() *hints { return &hints{due: map[batch.ServiceID]*wait{}} }

// add names a lane for the time at; a time that is not after now means at once. The earlier of
// two times wins.
func (h *hints) add(s batch.ServiceID, at, now time.Time) {
	w := h.due[s]
	switch {
	case w != nil && w.index == inFound && !at.After(now):
		h.finds--
		h.ripen(w)
	case w != nil && (w.index < 0 || !w.at.After(at)): // it is named for an equal or earlier time
	case !at.After(now):
		h.ripen(h.now(s, w))
	case w != nil:
		w.at = at
		heap.Fix(&h.later, w.index)
	default:
		w = &wait{service: s, at: at}
		h.due[s] = w
		heap.Push(&h.later, w)
	}
}

// find adds a lane that a scan found.
func (h *hints) find(s batch.ServiceID) {
	if w := h.due[s]; w == nil || w.index >= 0 {
		w = h.now(s, w)
		w.index = inFound
		h.finds++
		h.found = append(h.found, w)
	}
}

// now returns a place for a lane that has none, or takes the lane's place out of later.
func (h *hints) now(s batch.ServiceID, w *wait) *wait {
	if w == nil {
		w = &wait{service: s}
		h.due[s] = w
	} else {
		heap.Remove(&h.later, w.index)
	}
	return w
}

func (h *hints) ripen(w *wait) {
	w.index = inReady
	h.ready = append(h.ready, w.service)
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

// takeFound returns up to n lanes that a scan found, in order.
func (h *hints) takeFound(n int) (out []batch.ServiceID) {
	for len(h.found) > 0 && len(out) < n {
		if w := h.found[0]; w.index == inFound {
			w.index = inReady // so that it cannot be taken again
			h.finds--
			delete(h.due, w.service)
			out = append(out, w.service)
		}
		h.found = h.found[1:]
	}
	if len(h.found) == 0 {
		h.found = nil
	}
	return out
}

// next returns when the first lane becomes ready: zero for now, ok false for never.
func (h *hints) next(now time.Time) (at time.Time, ok bool) {
	h.promote(now)
	for len(h.found) > 0 && h.found[0].index != inFound {
		h.found = h.found[1:]
	}
	if len(h.ready) > 0 || len(h.found) > 0 {
		return time.Time{}, true
	}
	if len(h.later) > 0 {
		return h.later[0].at, true
	}
	return time.Time{}, false
}

func (h *hints) promote(now time.Time) {
	for len(h.later) > 0 && !h.later[0].at.After(now) {
		h.ripen(heap.Pop(&h.later).(*wait))
	}
}

// waiting is a heap of the lanes whose time has not come.
type waiting []*wait

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at.Before(w[j].at) }
func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push implements heap.Interface.
func (w *waiting) Push(x any) {
	n := x.(*wait)
	n.index = len(*w)
	*w = append(*w, n)
}

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	old := *w
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*w = old[:len(old)-1]
	return x
}
