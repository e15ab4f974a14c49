package splintertest

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The words of C3.
const (
	wordUnknown   = "Unknown"
	wordPending   = "Pending"
	wordValid     = "Valid"
	wordInvalid   = "Invalid"
	wordCommitted = "Committed"
)

// known is what a service remembers of a batch.
type known struct {
	word    string
	first   time.Time // neither a resubmission nor another status changes it
	txs     []string
	failed  string // the transaction
	message string
}

// history is the last batches that a service saw, in the order of their first sight.
type history struct {
	limit   int
	entries map[batch.ID]*known
	order   []batch.ID
	gone    map[batch.ID]bool // evicted: what happens to them later is not noted any more
}

func newHistory(limit int) history {
	return history{limit: limit, entries: map[batch.ID]*known{}, gone: map[batch.ID]bool{}}
}

// add notes a batch as Pending. It returns what that pushed out.
func (h *history) add(b *submitted) (out []batch.ID) {
	delete(h.gone, b.id)
	if k, ok := h.entries[b.id]; ok {
		k.word = wordPending // committed or not (C5)
		return nil
	}
	if len(h.order) >= h.limit {
		out = h.evict(h.order[len(h.order)-h.limit])
	}
	h.entries[b.id] = &known{word: wordPending, first: time.Now(), txs: b.ids}
	h.order = append(h.order, b.id)
	return out
}

// evict forgets a batch and all that was seen before it: nothing is ever forgotten
// out of turn. It returns them.
func (h *history) evict(id batch.ID) (out []batch.ID) {
	at := slices.Index(h.order, id)
	for _, x := range h.order[:at+1] {
		delete(h.entries, x)
		h.gone[x] = true
		out = append(out, x)
	}
	h.order = slices.Clone(h.order[at+1:])
	return out
}

// set changes what is known; a peer's batch is new and takes a slot.
func (h *history) set(b *submitted, word string) (out []batch.ID) {
	if h.gone[b.id] {
		return nil
	}
	if _, ok := h.entries[b.id]; !ok {
		out = h.add(b)
	}
	h.entries[b.id].word = word
	return out
}

func (h *history) word(id batch.ID) string {
	if k, ok := h.entries[id]; ok {
		return k.word
	}
	return wordUnknown
}
