package sqlstore

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Parties is [store.OrderEngine].Parties.
func (s *Store) Parties(ctx context.Context, q store.PartiesQuery) ([]store.PartyLoad, error) {
	type load struct {
		store.PartyLoad
		us int64
	}
	const op = "list parties"
	if err := checkAfter(q.After, q.Start); err != nil {
		return nil, s.d.Wrap(op, err)
	}
	statement, args := s.d.PartiesFirst, []any{int64(max(0, q.Limit)), int64(max(1, q.Cap))}
	if !q.Start {
		statement, args = s.d.PartiesAfter, append(args, string(q.After))
	}
	return ask(ctx, s.d.Read, op, func(ctx context.Context, t Tx) (found []store.PartyLoad, err error) {
		rows, err := Query(ctx, t, func(l *load) []any {
			return []any{&l.Party, &l.Orders, &l.Bytes, &l.Urgent, &l.us, &l.Split}
		}, statement, args...)
		for _, r := range rows {
			r.Oldest = time.Duration(r.us) * time.Microsecond
			s.d.Unusable.Usable([]batch.ServiceID{r.Party}) // its orders are counted, and none leaves
			found = append(found, r.PartyLoad)
		}
		return found, err
	})
}

// NextOrders is [store.OrderEngine].NextOrders.
func (s *Store) NextOrders(ctx context.Context, party batch.ServiceID, q store.NextQuery) ([]store.QueuedOrder, error) {
	if !canStore(party) {
		return nil, nil
	}
	return ask(ctx, s.d.Snapshot, "find next orders", func(ctx context.Context, t Tx) ([]store.QueuedOrder, error) {
		seqs, err := s.next(ctx, t, party, q)
		if err != nil || len(seqs) == 0 {
			return nil, err
		}
		rows, err := Query(ctx, t, (*queuedCols).dest, s.d.QueuedOrders, t.Ints(seqs))
		return queued(rows), err // without the orders that have moved on since
	})
}

// next are the numbers of the orders of the next batch.
func (s *Store) next(ctx context.Context, t Tx, party batch.ServiceID, q store.NextQuery) ([]int64, error) {
	now, err := Now(ctx, t)
	if err != nil {
		return nil, err
	}
	split, err := Query(ctx, t, (*orderCols).dest, s.d.SplitOrders, string(party), now)
	if err != nil {
		return nil, err
	}
	if len(split) > 0 {
		return firstGroup(split), nil
	}
	front, err := Query(ctx, t, (*frontCols).dest, s.d.NextOrders, string(party), now, int64(max(1, q.Max)))
	if err != nil {
		return nil, err
	}
	return sortFront(front, q), nil
}
