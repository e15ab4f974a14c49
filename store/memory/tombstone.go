package memory

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// tombstone is what remains of a batch after Prune.
type tombstone struct {
	batch.Record
	hash [sha256.Size]byte
}

// keepTombstone adds the tombstone of an entry that is removed now. s.mu is held.
func (s *Store) keepTombstone(e *entry, now time.Time) {
	t := &tombstone{store.Remains(e.record(), now), e.hash}
	s.tombstones[e.key.ID] = t
	if e.dataChangeID != "" {
		s.tombstonesByChange[e.dataChangeKeyOf()] = t
	}
}

// tombstoneRecord returns the record that the tombstone of a removed batch keeps. s.mu is held.
func (s *Store) tombstoneRecord(key batch.Key) (batch.Record, bool) {
	t := s.tombstones[key.ID]
	if t == nil || t.Key != key {
		return batch.Record{}, false
	}
	r := t.Record
	if r.Error != nil {
		e := *r.Error
		r.Error = &e
	}
	return r, true
}

// isBuried reports whether retention has removed the batch, or the batch to which its DataChangeID
// was given. s.mu is held.
func (s *Store) isBuried(e *entry, stored bool) (bool, error) {
	t := s.tombstones[e.key.ID]
	switch {
	case t != nil && (t.Key != e.key || t.hash != e.hash):
		return true, fmt.Errorf("%w: batch %s", batch.ErrConflict, e.key)
	case stored:
		return true, nil
	case t == nil:
		if t = s.tombstonesByChange[e.dataChangeKeyOf()]; t == nil {
			return false, nil
		}
		if t.hash != e.hash {
			return true, store.ChangeConflict(e.key, e.dataChangeID)
		}
	}
	r, _ := s.tombstoneRecord(t.Key)
	return true, store.AddedAgain(r)
}
