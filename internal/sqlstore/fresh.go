package sqlstore

import (
	"bytes"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// FreshBytes is how much memory a store spends on batches that it has just added. With the garbage
// that Go allows beside it this stays below the goal of 64 MiB with 1,000,000 batches that wait,
// which take 37 without it (docs/performance.md).
const FreshBytes = 12 << 20

// freshEntryBytes is about the memory that an entry takes beside its texts and bytes.
const freshEntryBytes = 256

// freshRefusals is how many batches find no room before one takes the place of others. So entries
// that this process never claims, because another process did or their lane is paused, leave in
// the end. A smaller number would push out batches that are about to be claimed, where many wait.
const freshRefusals = 8

// Fresh holds batches that this process has just added, so that its own claims need not read them
// back. It holds only the parts that never change while the row exists, under the number of the
// row. It is no more than a shortcut: any entry may be missing, and a claim reads the existence
// and the place of the row from the database. Its methods may be called concurrently.
type Fresh struct {
	maxBytes int

	mu      sync.Mutex
	entries map[int64]freshBatch
	size    int // bytes of all entries
	refused int // batches without room since one took the place of others
}

// FreshBatch is the part of an entry that a claim needs to choose.
type FreshBatch struct {
	ID        batch.ID
	Budget    batch.Budget
	Footprint []byte // for DecodeFootprint
	Size      int    // of the payload

	TraceParent string
}

type freshBatch struct {
	FreshBatch
	created int64
	payload []byte
	size    int
}

// NewFresh returns an empty Fresh that takes about `most` bytes.
func NewFresh(most int) *Fresh { return &Fresh{maxBytes: most, entries: map[int64]freshBatch{}} }

// Put holds a copy of a batch, if there is room. Nobody may have claimed the batch yet: call it
// before others can see the batch. If the transaction that added it then fails, or may have
// failed, call Take. created is the order key of the batch.
func (f *Fresh) Put(seq, created int64, b *batch.Batch) {
	footprint := EncodeFootprint(b.Footprint)
	size := freshEntryBytes + len(b.ID) + len(footprint) + len(b.Payload) + len(b.TraceParent)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(seq)
	if !f.makeRoom(size) {
		return
	}
	f.entries[seq] = freshBatch{
		FreshBatch: FreshBatch{
			ID: batch.ID(strings.Clone(string(b.ID))), Budget: b.Budget, Footprint: footprint, Size: len(b.Payload), TraceParent: strings.Clone(b.TraceParent),
		},
		created: created, payload: bytes.Clone(b.Payload), size: size,
	}
	f.size += size
}

// makeRoom reports whether an entry of this size may be added, and makes room for some.
func (f *Fresh) makeRoom(size int) bool {
	if f.size+size <= f.maxBytes {
		return true
	}
	if size > f.maxBytes {
		return false
	}
	if f.refused++; f.refused < freshRefusals {
		return false
	}
	f.refused = 0
	for seq := range f.entries { // any
		if f.remove(seq); f.size+size <= f.maxBytes {
			break
		}
	}
	return true
}

func (f *Fresh) remove(seq int64) {
	f.size -= f.entries[seq].size
	delete(f.entries, seq)
}

// Of returns the batch of a row that waits, and has never been claimed, if it is held. A number
// may have been used again where somebody made the database count from the beginning, so the order
// key must match, too; a batch that was moved in its lane has another one and is read.
func (f *Fresh) Of(seq, created int64) (FreshBatch, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.entries[seq]
	return e.FreshBatch, ok && e.created == created
}

// Take returns the payload of a batch that Of has returned and that is claimed now. It is held no
// more, and the bytes belong to the caller.
func (f *Fresh) Take(seq, created int64) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.entries[seq]
	if !ok || e.created != created {
		return nil, false
	}
	f.remove(seq)
	return e.payload, true
}

// Forget empties it: the database may be another one.
func (f *Fresh) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.size, f.refused = map[int64]freshBatch{}, 0, 0
}
