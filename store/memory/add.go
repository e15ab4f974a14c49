package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Add is [store.Store].Add.
func (s *Store) Add(ctx context.Context, batches ...batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := prepare(batches)
	if err != nil {
		return err
	}
	if err := s.lockFor(ctx, nil, entries, nil); err != nil {
		return err
	}
	defer s.mu.Unlock()
	fresh, err := s.notStored(entries, nil)
	if err != nil {
		return err
	}
	s.insertAll(fresh)
	return nil
}

// notStored returns the entries that are not stored yet, not added in tx, and not the same as an
// earlier entry. tx may be nil. s.mu is held.
func (s *Store) notStored(entries []*entry, tx *Tx) ([]*entry, error) {
	fresh := entries[:0]
	ids, changes := make(map[batch.ID]bool, len(entries)), map[dataChangeKey]bool{} // the ids and keys of the entries in fresh
	for _, e := range entries {
		known, err := s.isKnown(e, tx)
		if err == nil {
			known, err = s.isBuried(e, known || ids[e.key.ID] || changes[e.dataChangeKeyOf()])
		}
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		ids[e.key.ID] = true
		if e.dataChangeID != "" {
			changes[e.dataChangeKeyOf()] = true
		}
		fresh = append(fresh, e)
	}
	return fresh, nil
}

// insertAll stores the new entries of a call. s.mu is held.
func (s *Store) insertAll(fresh []*entry) {
	now := s.now()
	for i, e := range fresh {
		s.insert(e, now.Add(time.Duration(i)*time.Microsecond))
	}
}

// prepare checks the batches and copies them.
func prepare(batches []batch.Batch) ([]*entry, error) {
	for _, b := range batches {
		if err := b.Validate(); err != nil {
			return nil, err
		}
	}
	if _, err := store.Twins(batches); err != nil {
		return nil, err
	}
	entries := make([]*entry, 0, len(batches))
	seen := make(map[batch.ID]*entry, len(batches))
	for _, b := range batches {
		hash := b.Hash()
		if first := seen[b.ID]; first != nil && (first.key != b.Key() || first.hash != hash) {
			return nil, fmt.Errorf("%w: batch %s, twice in one call", batch.ErrConflict, b.Key())
		}
		e := &entry{
			key: b.Key(), hash: hash, payload: slices.Clone(b.Payload), budget: b.Budget, dataChangeID: b.DataChangeID,
			footprint: batch.Footprint{Reads: slices.Clone(b.Footprint.Reads), Writes: slices.Clone(b.Footprint.Writes)},
			row:       store.NewRow(), traceParent: strings.Clone(b.TraceParent), tags: maps.Clone(b.Tags),
		}
		seen[b.ID] = e
		entries = append(entries, e)
	}
	return entries, nil
}

// isKnown reports whether the batch is stored or added in tx, under its id or its DataChangeID.
// s.mu is held.
func (s *Store) isKnown(e *entry, tx *Tx) (bool, error) {
	old, change := s.byID[e.key.ID], s.byChange[e.dataChangeKeyOf()]
	if tx != nil {
		old, change = cmp.Or(old, tx.byID[e.key.ID]), cmp.Or(change, tx.byChange[e.dataChangeKeyOf()])
	}
	switch {
	case old != nil && (old.key != e.key || old.hash != e.hash):
		return true, fmt.Errorf("%w: batch %s", batch.ErrConflict, e.key)
	case change != nil && change.hash != e.hash:
		return true, store.ChangeConflict(e.key, e.dataChangeID)
	}
	return old != nil || change != nil, nil
}

// insert stores a new entry at the end of its lane, even if the clock has stepped back. s.mu is
// held.
func (s *Store) insert(e *entry, now time.Time) {
	s.insertAt(e, s.lane(e.key.Service).orderKey(now))
}

// insertAt stores a new entry under an order key. s.mu is held.
func (s *Store) insertAt(e *entry, at time.Time) {
	e.lane, e.created = s.lane(e.key.Service), at
	if at.After(e.lane.lastKey) {
		e.lane.lastKey = at
	}
	s.lastNumber++
	e.number = s.lastNumber
	s.byID[e.key.ID] = e
	if e.dataChangeID != "" {
		s.byChange[e.dataChangeKeyOf()] = e
	}
	s.all.insert(e)
	for _, value := range e.tags {
		l := s.byTag[value]
		if l == nil {
			l = &list[*entry]{before: isEarlierInOrder}
			s.byTag[value] = l
		}
		l.remove(e) // l may have e twice, with the value under two names
		l.insert(e)
	}
	e.lane.all.insert(e)
	s.enlist(e)
}
