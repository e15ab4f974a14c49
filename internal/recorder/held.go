package recorder

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// held are acceptances that are not written yet, since the ledger is just being asked
// whether it has committed them: then both are one write.
type held struct {
	mu    sync.Mutex
	of    map[batch.Key]*waits
	spare []*waits
	n     int           // of the last one
	some  chan struct{} // has one when there may be some where there were none
}

type waits struct {
	o     store.Outcome
	n     int // in the order of Hold
	until time.Time
}

// maxSpare bounds the memory that is kept for the next.
const maxSpare = 1024

func (h *held) add(o store.Outcome, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.of[o.Key]
	switch last := len(h.spare) - 1; {
	case w != nil:
	case last >= 0:
		w, h.spare = h.spare[last], h.spare[:last]
	default:
		w = &waits{}
	}
	h.n++
	w.o, w.n, w.until = o, h.n, until
	if h.of[o.Key] = w; len(h.of) == 1 {
		select {
		case h.some <- struct{}{}:
		default:
		}
	}
}

// remove is of one that is held; h.mu is.
func (h *held) remove(w *waits) store.Outcome {
	o := w.o
	delete(h.of, o.Key)
	if w.o = (store.Outcome{}); len(h.spare) < maxSpare {
		h.spare = append(h.spare, w)
	}
	return o
}

// take removes and returns what is held of these batches.
func (h *held) take(keys []batch.Key) (taken []store.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		if w := h.of[key]; w != nil {
			taken = append(taken, h.remove(w))
		}
	}
	return taken
}

// takeIf removes and returns, in the order of Hold, what is held and meant.
func (h *held) takeIf(meant func(*waits) bool) (taken []store.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*waits
	for _, w := range h.of {
		if meant(w) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *waits) int { return cmp.Compare(a.n, b.n) })
	for _, w := range all {
		taken = append(taken, h.remove(w))
	}
	return taken
}

// due removes and returns what is held for too long, and says when to look again; zero:
// nothing is held.
func (h *held) due(now time.Time) (taken []store.Outcome, next time.Time) {
	taken = h.takeIf(func(w *waits) bool {
		late := !w.until.After(now)
		if !late && (next.IsZero() || w.until.Before(next)) {
			next = w.until
		}
		return late
	})
	return taken, next
}

// join makes one outcome of a commit and of the acceptance that is held of the same
// batch: its submitter's, which knows the claim's version.
func (h *held) join(all []store.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) == 0 {
		return
	}
	for i := range all {
		if all[i].Finding != store.IsCommitted {
			continue
		}
		if w := h.of[all[i].Key]; w != nil {
			o := h.remove(w)
			o.Finding, o.Receipts = store.IsCommitted, all[i].Receipts
			all[i] = o
		}
	}
}
