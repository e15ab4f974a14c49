package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// nameRange returns the first and the last text that begin with text, or text twice if begins is
// false. No name has the character U+10FFFF, which is not printable, and databases compare names
// as bytes.
func nameRange(text string, begins bool) (first, last string) {
	if begins {
		return text, text + "\U0010FFFF"
	}
	return text, text
}

// Find is [store.Store].Find.
func (s *Store) Find(ctx context.Context, q store.FindQuery) (found []batch.Record, more bool, err error) {
	const op = "find"
	if err := q.Validate(); err != nil {
		return nil, false, s.driver.Wrap(op, err)
	}
	q = q.Bounded()
	if !areStorable("", cmp.Or(string(q.ID), q.DataChangeID)) || q.Service != nil && !areStorable(*q.Service) {
		return nil, false, nil
	}
	err = s.driver.Snapshot(ctx, op, func(ctx context.Context, t Tx) (err error) {
		var ids []batch.ID
		if ids, more, err = s.findIDs(ctx, t, q); err != nil || len(ids) == 0 {
			found = nil
			return err
		}
		found, err = s.recordsOfIDs(ctx, t, ids)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(found, func(a, b batch.Record) int {
		if q.ID != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		return cmp.Or(cmp.Compare(a.DataChangeID, b.DataChangeID), cmp.Compare(a.Service, b.Service))
	})
	n := min(len(found), q.Limit)
	return found[:n], more || n < len(found), nil
}

// recordsOfIDs returns the records of batches, or of their tombstones.
func (s *Store) recordsOfIDs(ctx context.Context, t Tx, ids []batch.ID) ([]batch.Record, error) {
	keys := make([]batch.Key, len(ids))
	for i, id := range ids {
		keys[i].ID = id
	}
	found, err := readRecords(ctx, t, s.driver.ListAll+`b.id_hash = ANY ($1::uuid[])`, hashesOf(t, keys))
	if err != nil {
		return nil, err
	}
	kept, err := s.tombstoneRecords(ctx, t, keys)
	for _, r := range kept {
		if !slices.ContainsFunc(found, func(f batch.Record) bool { return f.ID == r.ID }) {
			found = append(found, r)
		}
	}
	return slices.DeleteFunc(found, func(r batch.Record) bool { return !slices.Contains(ids, r.ID) }), err
}

// findIDs finds the ids of batches, stored or removed.
func (s *Store) findIDs(ctx context.Context, t Tx, q store.FindQuery) (ids []batch.ID, more bool, err error) {
	switch {
	case q.ID != "" && !q.Begins:
		return []batch.ID{q.ID}, false, nil
	case q.ID != "":
		if ids, more, err = findByBeginning(ctx, t, sqlFindIDs, q); err != nil {
			return nil, false, err
		}
		removed, alsoMore, err := s.tombsByBeginning(ctx, t, q)
		return append(ids, removed...), more || alsoMore, err
	}
	first, last := nameRange(q.DataChangeID, q.Begins)
	args, statements := []any{first, last, int64(q.Limit + 1)}, []string{sqlChanges, sqlTombChanges}
	if q.Service != nil {
		args, statements = append(args, string(*q.Service)), []string{sqlChangesOf, sqlTombsOf}
	}
	for _, statement := range statements {
		some, err := Query[batch.ID](ctx, t, statement, args...)
		if err != nil {
			return nil, false, err
		}
		ids, more = append(ids, some...), more || len(some) > q.Limit
	}
	return ids, more, nil
}

// tombsByBeginning finds the ids of removed batches.
func (s *Store) tombsByBeginning(ctx context.Context, t Tx, q store.FindQuery) ([]batch.ID, bool, error) {
	if s.driver.TombsByHash != "" {
		return findByBeginning(ctx, t, s.driver.TombsByHash, q)
	}
	first, last := nameRange(string(q.ID), true)
	ids, err := Query[batch.ID](ctx, t, s.driver.TombsByID, first, last, int64(q.Limit+1))
	return ids, len(ids) > q.Limit, err
}

// findByBeginning compares the ids whose hashes begin alike, in pages of beginningPageRows, and at
// most maxBeginningPages of them.
const (
	beginningPageRows = 1000
	maxBeginningPages = 20
)

// findByBeginning finds ids by their beginning, through the hashes of ids. A hash has only the
// first bytes of a longer beginning, so each id is compared, too.
func findByBeginning(ctx context.Context, t Tx, statement string, q store.FindQuery) (ids []batch.ID, more bool, err error) {
	low, high := hashesFrom(q.ID)
	page := q.Limit + 1
	if len(q.ID) > idBeginBytes {
		page = beginningPageRows
	}
	for range maxBeginningPages {
		some, err := Query[batch.ID](ctx, t, statement, hex.EncodeToString(low[:]), hex.EncodeToString(high[:]), int64(page))
		if err != nil {
			return nil, false, err
		}
		for _, id := range some {
			if strings.HasPrefix(string(id), string(q.ID)) {
				ids = append(ids, id)
			}
		}
		if len(ids) > q.Limit {
			return ids, true, nil
		}
		if len(some) < page {
			return ids, false, nil
		}
		last := IDHash(some[len(some)-1])
		if low = hashAfter(last); bytes.Compare(low[:], high[:]) > 0 || low == [16]byte{} {
			return ids, false, nil
		}
	}
	return ids, true, nil
}

// hashAfter returns the hash that follows h; zero after the last hash.
func hashAfter(h [16]byte) [16]byte {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i]++; h[i] != 0 {
			break
		}
	}
	return h
}

// FindLanes is [store.Store].FindLanes.
func (s *Store) FindLanes(ctx context.Context, q store.FindLanesQuery) ([]batch.ServiceID, error) {
	q = q.Bounded()
	if !areStorable(q.Name) {
		return nil, nil
	}
	first, last := nameRange(string(q.Name), q.Begins)
	return readResult(ctx, s.driver.Read, "find lanes", func(ctx context.Context, t Tx) ([]batch.ServiceID, error) {
		var found []batch.ServiceID
		for _, statement := range []string{sqlLanesOfBatches, sqlLanesOfOrders, sqlLanesSteered, sqlLanesServed} {
			some, err := Query[batch.ServiceID](ctx, t, statement, first, last, int64(q.Limit))
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
		slices.Sort(found)
		found = slices.Compact(found)
		return found[:min(len(found), q.Limit)], nil
	})
}

// FindOrders is [order.Store].FindOrders.
func (s *Store) FindOrders(ctx context.Context, q order.FindQuery) (found []order.Record, more bool, err error) {
	const op = "find orders"
	if err := q.Validate(); err != nil {
		return nil, false, s.driver.Wrap(op, err)
	}
	q = q.Bounded()
	text, statement := string(q.ID), sqlFindOrders
	if text == "" {
		text, statement = q.Key, sqlFindOrderKeys
	}
	if !areStorable("", text) {
		return nil, false, nil
	}
	first, last := nameRange(text, q.Begins)
	rows, err := readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) ([]orderCols, error) {
		return Query[orderCols](ctx, t, statement, first, last, int64(q.Limit+1))
	})
	for i := range rows[:min(len(rows), q.Limit)] {
		found = append(found, rows[i].record())
	}
	return found, len(rows) > q.Limit, err
}
