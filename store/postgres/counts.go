package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Counts is [store.BatchStore].Counts.
func (s *Store) Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	q = q.Bounded()
	var lanes []batch.ServiceID
	var found []sqlstore.Count
	err := s.tx(ctx, "count open batches", func(ctx context.Context, t *session) (err error) {
		found = nil
		switch {
		case q.Service != nil:
			lanes = sqlstore.Services([]batch.ServiceID{*q.Service})
		case q.Start:
			lanes, err = query(ctx, t, value[batch.ServiceID], sqlAllLanesFirst, int64(q.Limit))
		default:
			lanes, err = query(ctx, t, value[batch.ServiceID], sqlAllLanesAfter, int64(q.Limit), string(q.After))
		}
		if err != nil || len(lanes) == 0 {
			return err
		}
		low, err := t.floors(ctx, lanes)
		if err != nil {
			return err
		}
		found, err = query(ctx, t, func(c *sqlstore.Count) []any { return []any{&c.Service, &c.State, &c.N} }, sqlCounts,
			texts(lanes), int64(q.Cap), ints(low))
		return err
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.Counts(lanes, found, q.Service == nil), nil
}
