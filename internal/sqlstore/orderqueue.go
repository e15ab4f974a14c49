package sqlstore

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// Parties is [order.Store].Parties.
func (s *Store) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	type load struct {
		Party  batch.ServiceID `db:"party"`
		Orders int             `db:"orders"`
		Bytes  int             `db:"bytes"`
		Urgent bool            `db:"urgent"`
		Oldest int64           `db:"oldest"` // microseconds
		Split  bool            `db:"split"`
	}
	const op = "list parties"
	if err := checkAfter(q.After, q.Start); err != nil {
		return nil, s.driver.Wrap(op, err)
	}
	statement, args := s.driver.PartiesFirst, []any{int64(max(0, q.Limit)), int64(max(1, q.Cap))}
	if !q.Start {
		statement, args = s.driver.PartiesAfter, append(args, string(q.After))
	}
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) (found []order.PartyLoad, err error) {
		rows, err := Query[load](ctx, t, statement, args...)
		for _, r := range rows {
			s.driver.Unusable.Usable([]batch.ServiceID{r.Party}) // the orders of an unusable name are counted, and none of them leaves
			found = append(found, order.PartyLoad{
				Party: r.Party, Orders: r.Orders, Bytes: r.Bytes, Urgent: r.Urgent, Oldest: time.Duration(r.Oldest) * time.Microsecond, Split: r.Split,
			})
		}
		return found, err
	})
}

// NextOrders is [order.Store].NextOrders.
func (s *Store) NextOrders(ctx context.Context, party batch.ServiceID, q order.NextQuery) ([]order.Waiting, error) {
	if !areStorable(party) {
		return nil, nil
	}
	return readResult(ctx, s.driver.Snapshot, "find next orders", func(ctx context.Context, t Tx) ([]order.Waiting, error) {
		seqs, err := s.nextOrderSeqs(ctx, t, party, q)
		if err != nil || len(seqs) == 0 {
			return nil, err
		}
		rows, err := Query[queuedCols](ctx, t, s.driver.QueuedOrders, t.Ints(seqs))
		return sortQueued(rows), err // without the orders that have changed since the first statement
	})
}

// nextOrderSeqs returns the numbers of the orders of the next batch.
func (s *Store) nextOrderSeqs(ctx context.Context, t Tx, party batch.ServiceID, q order.NextQuery) ([]int64, error) {
	now, err := Now(ctx, t)
	if err != nil {
		return nil, err
	}
	split, err := Query[orderCols](ctx, t, s.driver.SplitOrders, string(party), now)
	if err != nil {
		return nil, err
	}
	if len(split) > 0 {
		return firstGroup(split), nil
	}
	front, err := Query[frontCols](ctx, t, s.driver.NextOrders, string(party), now, int64(max(1, q.Max)))
	if err != nil {
		return nil, err
	}
	return sortFront(front, q), nil
}
