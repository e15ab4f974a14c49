package sqlite

import (
	"context"
	"encoding/json"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Counts is [store.BatchStore].Counts.
func (s *Store) Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	q = q.Bounded()
	var lanes []batch.ServiceID
	var found []sqlstore.Count
	err := s.read(ctx, "count open batches", func(ctx context.Context, t *session) (err error) {
		switch {
		case q.Service != nil:
			lanes = sqlstore.Services([]batch.ServiceID{*q.Service})
		case q.Start:
			err = t.sel(ctx, &lanes, sqlAllLanesFirst, q.Limit)
		default:
			err = t.sel(ctx, &lanes, sqlAllLanesAfter, string(q.After), q.Limit)
		}
		if err != nil || len(lanes) == 0 {
			return err
		}
		names, err := json.Marshal(lanes)
		if err != nil {
			return err
		}
		return t.sel(ctx, &found, sqlCounts, string(names), q.Cap, string(names))
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.Counts(lanes, found, q.Service == nil), nil
}
