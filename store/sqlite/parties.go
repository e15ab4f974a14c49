package sqlite

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Parties is [store.OrderEngine].Parties.
func (s *Store) Parties(ctx context.Context, q store.PartiesQuery) (found []store.PartyLoad, err error) {
	err = s.read(ctx, "list parties", func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		var parties []string
		if q.Start {
			err = t.sel(ctx, &parties, sqlPartiesFirst, q.Limit)
		} else {
			err = t.sel(ctx, &parties, sqlPartiesAfter, string(q.After), q.Limit)
		}
		if err != nil {
			return err
		}
		for _, p := range parties {
			var load struct {
				Orders int
				Bytes  int
				Urgent bool
				Oldest int64
				Split  bool
			}
			if err := t.get(ctx, &load, sqlPartyLoad, p, p, p, max(1, q.Cap)); err != nil {
				return err
			}
			l := store.PartyLoad{Party: batch.ServiceID(p), Orders: load.Orders, Bytes: load.Bytes, Urgent: load.Urgent, Split: load.Split}
			if load.Oldest != 0 {
				l.Oldest = now.Sub(sqlstore.FromMicro(load.Oldest))
			}
			found = append(found, l)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// NextOrders is [store.OrderEngine].NextOrders.
func (s *Store) NextOrders(ctx context.Context, party batch.ServiceID, q store.NextQuery) (next []store.QueuedOrder, err error) {
	if !sqlstore.CanStore(party) {
		return nil, nil
	}
	err = s.read(ctx, "find next orders", func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		seqs, err := t.next(ctx, party, q, now)
		if err != nil || len(seqs) == 0 {
			return err
		}
		var rows []sqlstore.QueuedCols
		if err := t.sel(ctx, &rows, sqlQueued, jsonInts(seqs)); err != nil {
			return err
		}
		next = sqlstore.Queued(rows) // without the orders that have moved on since
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// next are the numbers of the orders of the next batch.
func (t *session) next(ctx context.Context, party batch.ServiceID, q store.NextQuery, now time.Time) ([]int64, error) {
	var split []sqlstore.OrderCols
	if err := t.sel(ctx, &split, sqlSplitOrders, string(party), sqlstore.ToMicro(now)); err != nil {
		return nil, err
	}
	if len(split) > 0 {
		return sqlstore.FirstGroup(split), nil
	}
	var front []sqlstore.FrontCols
	if err := t.sel(ctx, &front, sqlNextOrders, string(party), sqlstore.ToMicro(now), max(1, q.Max)); err != nil {
		return nil, err
	}
	return sqlstore.SortFront(front, q), nil
}
