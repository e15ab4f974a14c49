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
	firstSeen         time.Time // a later POST or status does not change it
	txs               []string
	failedTransaction string // the id of the failed transaction
	message           string
}

// batchHistory has the last batches that a service saw, in the order in which it first saw them.
type batchHistory struct {
	maxBatches int
	entries    map[batch.ID]*batchRecord
	idsInOrder []batch.ID
	evictedIDs map[batch.ID]bool // evicted by a test; a later execution does not bring them back
}

func newHistory(limit int) batchHistory {
	return batchHistory{maxBatches: limit, entries: map[batch.ID]*batchRecord{}, evictedIDs: map[batch.ID]bool{}}
}

// add notes a batch as Pending. It returns the batches that it has evicted.
func (h *batchHistory) add(b *submitted) (out []batch.ID) {
	delete(h.evictedIDs, b.id)
	if k, ok := h.entries[b.id]; ok {
		k.word = wordPending // even if the batch is committed
		return nil
	}
	if len(h.idsInOrder) >= h.maxBatches {
		out = h.dropUpTo(len(h.idsInOrder) - h.maxBatches)
	}
	h.entries[b.id] = &batchRecord{word: wordPending, firstSeen: time.Now(), txs: b.ids}
	h.idsInOrder = append(h.idsInOrder, b.id)
	return out
}

// evict forgets a batch and all batches that were first seen before it, as if a hundred other
// batches had followed, and returns them. Their later executions are not noted.
func (h *batchHistory) evict(id batch.ID) (out []batch.ID) {
	out = h.dropUpTo(slices.Index(h.idsInOrder, id))
	for _, x := range out {
		h.evictedIDs[x] = true
	}
	return out
}

// dropUpTo forgets the batches up to the index last, and returns them.
func (h *batchHistory) dropUpTo(last int) (out []batch.ID) {
	out = slices.Clone(h.idsInOrder[:last+1])
	for _, x := range out {
		delete(h.entries, x)
	}
	h.idsInOrder = slices.Clone(h.idsInOrder[last+1:])
	return out
}

// setWord notes the result of an execution. A batch that is not in the history is added to it.
func (h *batchHistory) setWord(b *submitted, word string) (out []batch.ID) {
	if h.evictedIDs[b.id] {
		return nil
	}
	if _, ok := h.entries[b.id]; !ok {
		out = h.add(b)
	}
	h.entries[b.id].word = word
	return out
}

// commit changes a Valid batch to Committed. A batch that was posted again in the meantime stays
// Pending, and a forgotten batch stays unknown.
func (h *batchHistory) commit(id batch.ID) {
	if k, ok := h.entries[id]; ok && k.word == wordValid {
		k.word = wordCommitted
	}
}

func (h *batchHistory) word(id batch.ID) string {
	if k, ok := h.entries[id]; ok {
		return k.word
	}
	return wordUnknown
}
