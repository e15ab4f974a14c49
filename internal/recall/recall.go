// Package recall remembers the batches that this process has claimed, posted or read,
// independently of the database. A database may forget: an asynchronous failover loses the last
// commits, or a person restores a backup. A claim that contradicts this memory proves that. The
// batch must then not be posted as if it were new, because the ledger may execute the earlier
// attempt.
package recall

import (
	"bytes"
	"hash/maphash"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// DefaultBytes is about how much memory a process uses for this. It is enough for the last 100,000
// batches without prepared bytes.
const DefaultBytes = 8 << 20

// entryBytes is about the memory that an entry takes beside its prepared bytes.
const entryBytes = 64

// Batches is the memory. All methods may be called concurrently. It keeps the batches that were
// mentioned last, and forgets whole generations of the others, so that its size is bounded.
type Batches struct {
	maxBytes int // size of a generation in bytes
	seed     maphash.Seed

	mu         sync.Mutex
	young, old map[uint64]entry // entries by the hash of the key: two batches with one hash cost only a question
	size       int              // size of young in bytes
}

// entry is the memory of one batch.
type entry struct {
	attempt        int       // the last known attempt
	isFinal        bool      // the batch was seen as final
	firstAttemptAt time.Time // the time of the first known attempt
	prepared       []byte    // the prepared bytes that the store last kept for it; nil if there are none
}

// New returns an empty memory of about `most` bytes.
func New(most int) *Batches {
	return &Batches{maxBytes: most / 2, seed: maphash.MakeSeed(), young: map[uint64]entry{}}
}

// Claimed notes a claim that is about to be posted.
func (m *Batches) Claimed(c store.Claim, now time.Time) {
	m.change(c.Key, now, func(e *entry) { e.noteClaim(c.Attempt, c.Prepared) })
}

// Kept notes bytes that the store has kept, before they are posted.
func (m *Batches) Kept(p store.Prepared, now time.Time) {
	m.change(p.Key, now, func(e *entry) { e.prepared = bytes.Clone(p.Bytes) })
}

// Seen notes a row that was read.
func (m *Batches) Seen(row store.InFlight, now time.Time) {
	first := now.Add(-max(row.PostedAgo, row.Age, 0))
	m.change(row.Key, first, func(e *entry) {
		if !e.isFinal || row.Requeued && row.Attempt > e.attempt {
			e.noteClaim(row.Attempt, row.Prepared)
		}
	})
}

// Written notes an outcome that was written, and the row as the store returned it.
func (m *Batches) Written(o store.Outcome, row store.Row, now time.Time) {
	m.change(o.Key, now, func(e *entry) {
		e.attempt, e.isFinal = max(e.attempt, row.Attempt), row.Final()
		if o.ForgottenFor > 0 { // the database now knows of the doubt
			e.attempt = row.Attempt
		}
		if o.Finding == store.IsVoid {
			e.prepared = nil
		}
	})
}

// Prepared returns the bytes by which the ledger is to be asked about a batch. have are the bytes
// that the store keeps; the result is longer if the store has forgotten some.
func (m *Batches) Prepared(key batch.Key, have []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entryOf(m.hash(key)); ok && e.hasMoreThan(have) {
		return bytes.Clone(e.prepared)
	}
	return have
}

// Forgotten describes what the database has forgotten about a batch.
type Forgotten struct {
	// Age is the age of the first known attempt.
	Age time.Duration
	// Attempt is the last known attempt.
	Attempt int
	// Final is true if the batch was final.
	Final bool
	// Prepared are the bytes that the store has to keep again; nil if it lacks none.
	Prepared []byte
	// OtherBytes is true if the store keeps other bytes than those that were sent last.
	OtherBytes bool
}

// Judge returns nil if a claim agrees with the memory.
func (m *Batches) Judge(c store.Claim, now time.Time) *Forgotten {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entryOf(m.hash(c.Key))
	if !ok || !e.contradicts(c) {
		return nil
	}
	f := &Forgotten{Age: max(now.Sub(e.firstAttemptAt), time.Microsecond), Attempt: e.attempt, Final: e.isFinal}
	switch {
	case e.hasMoreThan(c.Prepared):
		f.Prepared = bytes.Clone(e.prepared)
	case !bytes.HasPrefix(c.Prepared, e.prepared):
		f.OtherBytes = true
	}
	return f
}

// contradicts reports whether a claim is possible only if the database has forgotten something.
// Each claim raises the attempt. Only a requeue makes a final batch claimable, and a requeue is
// never undone. Kept bytes become longer, or are replaced by other bytes.
func (e *entry) contradicts(c store.Claim) bool {
	switch {
	case c.Attempt <= e.attempt:
		return true
	case e.isFinal:
		return c.Was != nil && !c.Was.Requeued
	}
	return e.hasMoreThan(c.Prepared)
}

// hasMoreThan reports whether the entry has longer bytes than the store.
func (e *entry) hasMoreThan(have []byte) bool {
	return len(e.prepared) > len(have) && bytes.HasPrefix(e.prepared, have)
}

// noteClaim notes the attempt and the bytes of an open row. A requeue of a final batch starts a
// new entry.
func (e *entry) noteClaim(attempt int, prepared []byte) {
	if e.isFinal {
		e.isFinal, e.prepared = false, nil
	}
	e.attempt = max(e.attempt, attempt)
	e.keepBytes(prepared)
}

// keepBytes notes the bytes of a row, unless the entry has longer bytes of the same beginning.
func (e *entry) keepBytes(have []byte) {
	if len(have) > 0 && !e.hasMoreThan(have) {
		e.prepared = bytes.Clone(have)
	}
}

func (m *Batches) hash(key batch.Key) uint64 { return maphash.Comparable(m.seed, key) }

func (m *Batches) entryOf(h uint64) (entry, bool) {
	e, ok := m.young[h]
	if !ok {
		e, ok = m.old[h]
	}
	return e, ok
}

// change changes the entry of a batch. first is a time at which the batch had been attempted
// already.
func (m *Batches) change(key batch.Key, first time.Time, change func(*entry)) {
	h := m.hash(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	was, young := m.young[h]
	e, known := m.entryOf(h)
	if !known || first.Before(e.firstAttemptAt) {
		e.firstAttemptAt = first
	}
	change(&e)
	if young {
		m.size -= entryBytes + len(was.prepared)
	}
	if size := entryBytes + len(e.prepared); m.size+size > m.maxBytes && len(m.young) > 0 {
		delete(m.young, h)
		m.young, m.old, m.size = map[uint64]entry{}, m.young, 0
	}
	m.young[h] = e
	m.size += entryBytes + len(e.prepared)
}
