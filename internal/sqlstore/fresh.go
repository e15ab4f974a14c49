package sqlstore

import (
	"bytes"
	"strings"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// FreshBytes is how much memory a store uses for batches that it has just added. With the garbage
// that Go allows, a process with 1,000,000 waiting batches stays below the goal of 64 MiB; without
// these batches it takes 37 MiB (docs/performance.md).
const FreshBytes = 12 << 20

// freshEntryBytes is about the memory that an entry takes beside its texts and its bytes.
const freshEntryBytes = 256

// maxFreshRefusals is how many batches find no room before a batch replaces other entries. So
// entries that this process never claims, because another process did or their lane is paused, are
// removed in the end. If many batches wait, a smaller number would remove batches that are about
// to be claimed.
const maxFreshRefusals = 8

// Fresh keeps batches that this process has just added, so that its own claims need not read them
// back. It keeps only the parts that never change while the row exists, under the number of the
// row. It is only a cache: any entry may be missing, and a claim reads from the database whether
// the row exists and where its place is. Its methods may be called concurrently.
type Fresh struct {
	maxBytes int

	mu        sync.Mutex
	entries   map[int64]freshBatch
	usedBytes int // the bytes of all entries
	refusals  int // the batches without room since the last batch that replaced others
}

// FreshBatch is the part of an entry that a claim needs to choose batches.
type FreshBatch struct {
	ID        batch.ID
	Budget    batch.Budget
	Footprint []byte // for DecodeFootprint
	Size      int    // the bytes of the payload

	TraceParent string
}

type freshBatch struct {
	FreshBatch
	created int64
	payload []byte
	size    int
}

// NewFresh returns an empty Fresh that uses about `most` bytes.
func NewFresh(most int) *Fresh { return &Fresh{maxBytes: most, entries: map[int64]freshBatch{}} }

// Put keeps a copy of a batch, if there is room. Nobody may have claimed the batch yet, so call
// Put before others can see the batch. If the transaction that added the batch fails after that,
// or may have failed, call Take. created is the order key of the batch.
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
	f.usedBytes += size
}

// makeRoom reports whether an entry of this size may be added. It removes other entries after
// maxFreshRefusals refusals.
func (f *Fresh) makeRoom(size int) bool {
	if f.usedBytes+size <= f.maxBytes {
		return true
	}
	if size > f.maxBytes {
		return false
	}
	if f.refusals++; f.refusals < maxFreshRefusals {
		return false
	}
	f.refusals = 0
	for seq := range f.entries { // in any order
		if f.remove(seq); f.usedBytes+size <= f.maxBytes {
			break
		}
	}
	return true
}

func (f *Fresh) remove(seq int64) {
	f.usedBytes -= f.entries[seq].size
	delete(f.entries, seq)
}

// Of returns the batch of a row that waits and was never claimed, if Fresh has it. The order key
// must match, because the database may have used the number again if somebody has reset its
// sequence. A batch that was moved in its lane has another order key, and is read.
func (f *Fresh) Of(seq, created int64) (FreshBatch, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.entries[seq]
	return e.FreshBatch, ok && e.created == created
}

// Take returns the payload of a batch that Of has returned and that is claimed now. It removes the
// entry, and the bytes belong to the caller.
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

// Forget removes all entries, because the database may be another one now.
func (f *Fresh) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries, f.usedBytes, f.refusals = map[int64]freshBatch{}, 0, 0
}
