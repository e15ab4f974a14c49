package splintertest

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The words of a status.
const (
	wordUnknown   = "Unknown"
	wordPending   = "Pending"
	wordValid     = "Valid"
	wordInvalid   = "Invalid"
	wordCommitted = "Committed"
)

// batchRecord is a service's memory of a batch.
type batchRecord struct {
	word              string
	firstSeen         time.Time // neither a resubmission nor another status changes it
	txs               []string
	failedTransaction string // id of the failed transaction
	message           string
}

// history holds the last batches that a service saw, in the order of their first sight.
type history struct {
	limit   int
	entries map[batch.ID]*batchRecord
	order   []batch.ID
	evicted map[batch.ID]bool // evicted by a test: their later executions are not noted
}

func newHistory(limit int) history {
	return history{limit: limit, entries: map[batch.ID]*batchRecord{}, evicted: map[batch.ID]bool{}}
}

// add notes a batch as Pending. It returns the batches that this pushed out.
func (h *history) add(b *submitted) (out []batch.ID) {
	delete(h.evicted, b.id)
	if k, ok := h.entries[b.id]; ok {
		k.word = wordPending // committed or not
		return nil
	}
	if len(h.order) >= h.limit {
		out = h.drop(len(h.order) - h.limit)
	}
	h.entries[b.id] = &batchRecord{word: wordPending, firstSeen: time.Now(), txs: b.ids}
	h.order = append(h.order, b.id)
	return out
}

// evict forgets a batch and all batches seen before it: nothing is ever forgotten out of turn.
// It returns them. Their later executions are not noted any more, as if a hundred other
// batches followed.
func (h *history) evict(id batch.ID) (out []batch.ID) {
	out = h.drop(slices.Index(h.order, id))
	for _, x := range out {
		h.evicted[x] = true
	}
	return out
}

// drop forgets up to the last-th in the order.
func (h *history) drop(last int) (out []batch.ID) {
	out = slices.Clone(h.order[:last+1])
	for _, x := range out {
		delete(h.entries, x)
	}
	h.order = slices.Clone(h.order[last+1:])
	return out
}

// set notes the result of an execution. A batch that is not known, or no longer, takes a slot.
func (h *history) set(b *submitted, word string) (out []batch.ID) {
	if h.evicted[b.id] {
		return nil
	}
	if _, ok := h.entries[b.id]; !ok {
		out = h.add(b)
	}
	h.entries[b.id].word = word
	return out
}

// commit makes a Valid batch Committed. Anything else stays as it is: a batch that was posted
// again meanwhile is Pending, and a forgotten batch stays unknown.
func (h *history) commit(id batch.ID) {
	if k, ok := h.entries[id]; ok && k.word == wordValid {
		k.word = wordCommitted
	}
}

func (h *history) word(id batch.ID) string {
	if k, ok := h.entries[id]; ok {
		return k.word
	}
	return wordUnknown
}
