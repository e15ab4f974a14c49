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
// whether it has committed them, or is about to tell: then both are one write. And it is
// commits that were told of before the POST was answered.
type held struct {
	mu     sync.Mutex
	of     map[batch.Key]*waits
	off    map[batch.Key]struct{} // whose commit the store has put off until their claim ends
	spare  []*waits
	n      int           // of the last one
	first  time.Time     // when one may be due first; zero: none is held
	sooner chan struct{} // has one when first may have come closer
}

type waits struct {
	o     store.Outcome // Accepted or IsCommitted
	n     int           // in the order they came
	until time.Time
}

const (
	// maxSpare bounds the memory that is kept for the next.
	maxSpare = 1024
	// maxHeld bounds what is held: a ledger may tell of all that it has ever committed, and
	// has to wait then until some of it is written.
	maxHeld = 4096
)

// add holds an acceptance, or returns what is to be written at once: it, or the commit
// that was there before it.
func (h *held) add(o store.Outcome, until time.Time) (now store.Outcome, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.of[o.Key]; w != nil && w.o.Finding == store.IsCommitted {
		return join(o, h.remove(w)), true
	}
	if _, off := h.off[o.Key]; off || len(h.of) >= maxHeld {
		return o, true
	}
	h.put(o, until)
	return o, false
}

// putOff is told what was written, and which commits of it wait for a live claim to end:
// the ledger does not tell of them again, so no acceptance of theirs is held. It joins
// those with what is held already, and reports whether there was any.
func (h *held) putOff(written, waiting []item) (joined bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.off) > 0 {
		for _, it := range written {
			delete(h.off, it.o.Key)
		}
	}
	for i, it := range waiting {
		if w := h.of[it.o.Key]; w != nil && w.o.Finding == store.Accepted {
			waiting[i].o, joined = join(h.remove(w), it.o), true
			continue
		}
		h.off[it.o.Key] = struct{}{}
	}
	return joined
}

// early holds those of which nothing is held yet, nor known of their rows, and returns the
// others.
func (h *held) early(commits []store.Outcome, until time.Time) (rest []store.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range commits {
		if o.By == batch.ByMonitor && o.Was == nil && h.of[o.Key] == nil && len(h.of) < maxHeld {
			h.put(o, until)
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// takeEarly removes and returns a commit that is held.
func (h *held) takeEarly(key batch.Key) (o store.Outcome, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.of[key]; w != nil && w.o.Finding == store.IsCommitted {
		return h.remove(w), true
	}
	return o, false
}

// put is add without a look; h.mu is held.
func (h *held) put(o store.Outcome, until time.Time) {
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
	h.of[o.Key] = w
	if h.first.IsZero() || until.Before(h.first) {
		h.first = until
		select {
		case h.sooner <- struct{}{}:
		default:
		}
	}
}

// firstDue is when something may fall due first; zero: nothing does.
func (h *held) firstDue() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
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

// takeIf removes and returns, in the order it came, what is held and meant.
func (h *held) takeIf(meant func(*waits) bool) (taken []store.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.takeAll(meant)
}

// takeAll is takeIf; h.mu is held.
func (h *held) takeAll(meant func(*waits) bool) (taken []store.Outcome) {
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = time.Time{}
	taken = h.takeAll(func(w *waits) bool {
		late := !w.until.After(now)
		if !late && (h.first.IsZero() || w.until.Before(h.first)) {
			h.first = w.until
		}
		return late
	})
	return taken, h.first
}

// join makes one outcome of a commit and of the acceptance that is held of the same
// batch.
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
		if w := h.of[all[i].Key]; w != nil && w.o.Finding == store.Accepted {
			all[i] = join(h.remove(w), all[i])
		}
	}
}

// join is the acceptance, as the commit of the same batch: the submitter's, which knows
// the claim's version.
func join(accepted, committed store.Outcome) store.Outcome {
	accepted.Finding, accepted.Receipts = store.IsCommitted, committed.Receipts
	return accepted
}
