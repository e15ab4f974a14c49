package recorder

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// held holds acceptances that are not written yet, because the ledger is just being asked
// about the commit, or is about to report it: then both are one write. It also holds commits
// that an event reported before the POST was answered.
type held struct {
	mu     sync.Mutex
	of     map[batch.Key]*waits
	off    map[batch.Key]struct{} // batches whose commit the store has put off until their claim ends
	spare  []*waits
	n      int           // number of the last one held
	first  time.Time     // when one may be due first; zero: nothing is held
	sooner chan struct{} // has an element when first may have come closer
}

type waits struct {
	o     store.Outcome // Accepted or IsCommitted
	n     int           // in the order they came
	until time.Time
}

const (
	// maxSpare bounds the memory that is kept for later entries.
	maxSpare = 1024
	// maxHeld bounds the number of held outcomes: a ledger may report all its commits ever,
	// and must then wait until some are written.
	maxHeld = 4096
)

// add holds an acceptance, or returns the outcome to write at once: the acceptance, or its
// commit that was there before it.
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

// putOff takes the outcomes that were written, and the commits that wait for a live claim to
// end. The ledger does not report those again, so from now on no acceptance of theirs is held.
// putOff joins waiting commits with acceptances that are held already, and reports whether it
// joined any.
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

// early holds commits of batches that have no held outcome and no known row, and returns the
// other commits.
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

// firstDue is when an outcome may fall due first; zero: none does.
func (h *held) firstDue() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
}

// remove takes a held outcome out; h.mu is held.
func (h *held) remove(w *waits) store.Outcome {
	o := w.o
	delete(h.of, o.Key)
	if w.o = (store.Outcome{}); len(h.spare) < maxSpare {
		h.spare = append(h.spare, w)
	}
	return o
}

// take removes and returns the held outcomes of these batches.
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

// takeIf removes and returns, in the order they came, the held outcomes that meant picks.
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

// due removes and returns outcomes that were held for too long, and says when to look again;
// zero: nothing is held.
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

// join makes one outcome of each commit and the held acceptance of the same batch.
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

// join returns the acceptance, turned into the commit of the same batch: the submitter's
// outcome knows the claim's version.
func join(accepted, committed store.Outcome) store.Outcome {
	accepted.Finding, accepted.Receipts = store.IsCommitted, committed.Receipts
	return accepted
}
