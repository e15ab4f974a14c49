package memory

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// tombstone is the remainder of a batch after Prune.
type tombstone struct {
	batch.Record
	hash [sha256.Size]byte
}

// bury keeps a tombstone of an entry that is removed now. s.mu is held.
func (s *Store) bury(e *entry, now time.Time) {
	t := &tombstone{store.Remains(e.record(), now), e.hash}
	s.tombs[e.key.ID] = t
	if e.dataChangeID != "" {
		s.tombOf[e.change()] = t
	}
}

// remains returns the tombstone of a batch that was removed. s.mu is held.
func (s *Store) remains(key batch.Key) (batch.Record, bool) {
	t := s.tombs[key.ID]
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

// buried reports whether retention has removed the batch, which may be stored under its
// DataChangeID alone. s.mu is held.
func (s *Store) buried(e *entry, stored bool) (bool, error) {
	t := s.tombs[e.key.ID]
	switch {
	case t != nil && (t.Key != e.key || t.hash != e.hash):
		return true, fmt.Errorf("%w: batch %s", batch.ErrConflict, e.key)
	case stored:
		return true, nil
	case t == nil:
		if t = s.tombOf[e.change()]; t == nil {
			return false, nil
		}
		if t.hash != e.hash {
			return true, store.ChangeConflict(e.key, e.dataChangeID)
		}
	}
	r, _ := s.remains(t.Key)
	return true, store.AddedAgain(r)
}
