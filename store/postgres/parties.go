package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Parties is [store.OrderEngine].Parties.
func (s *Store) Parties(ctx context.Context, q store.PartiesQuery) (found []store.PartyLoad, err error) {
	type load struct {
		store.PartyLoad
		us int64
	}
	err = s.tx(ctx, "list parties", func(ctx context.Context, t *session) error {
		dest := func(l *load) []any { return []any{&l.Party, &l.Orders, &l.Bytes, &l.Urgent, &l.us, &l.Split} }
		statement, args := sqlPartiesFirst, []any{int64(max(0, q.Limit)), int64(max(1, q.Cap))}
		if !q.Start {
			statement, args = sqlPartiesAfter, append(args, string(q.After))
		}
		rows, err := query(ctx, t, dest, statement, args...)
		if err != nil {
			return err
		}
		found = nil
		for _, r := range rows {
			r.Oldest = time.Duration(r.us) * time.Microsecond
			found = append(found, r.PartyLoad)
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
	err = s.tx(ctx, "find next orders", func(ctx context.Context, t *session) error {
		next = nil
		seqs, err := t.next(ctx, party, q)
		if err != nil || len(seqs) == 0 {
			return err
		}
		rows, err := query(ctx, t, func(c *sqlstore.QueuedCols) []any { return append(c.Dest(), &c.Payload) }, sqlQueued, ints(seqs))
		next = sqlstore.Queued(rows) // without the orders that have moved on since
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// next are the numbers of the orders of the next batch.
func (t *session) next(ctx context.Context, party batch.ServiceID, q store.NextQuery) ([]int64, error) {
	now, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	split, err := query(ctx, t, (*sqlstore.OrderCols).Dest, sqlSplitOrders, string(party), now)
	if err != nil {
		return nil, err
	}
	if len(split) > 0 {
		return sqlstore.FirstGroup(split), nil
	}
	front, err := query(ctx, t, func(c *sqlstore.FrontCols) []any {
		return []any{&c.Seq, &c.Size, &c.Priority, &c.CreatedAt, &c.ID}
	}, sqlNextOrders, string(party), now, int64(max(1, q.Max)))
	if err != nil {
		return nil, err
	}
	return sqlstore.SortFront(front, q), nil
}
