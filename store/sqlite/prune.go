package sqlite

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// pruneChunk is how many batches one transaction removes: writers wait no longer than this
// takes.
const pruneChunk = 100

// Prune is [store.BatchStore].Prune. It removes in small transactions: after an error or a
// cancel it returns the number removed so far, and the next call removes the rest.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (p store.Pruned, err error) {
	q = q.Bounded()
	p.Batches, err = s.pruneAll(ctx, q, sqlPrunable, func(ctx context.Context, t *session, seq, now int64) error {
		return t.prune(ctx, seq, now, q.Tombstone)
	})
	if err != nil {
		return p, err
	}
	p.Orders, err = s.pruneAll(ctx, q, sqlPrunableOrders, func(ctx context.Context, t *session, seq, _ int64) error {
		return t.pruneOrder(ctx, seq)
	})
	if err != nil {
		return p, err
	}
	if p.StreamIDs, err = s.pruneStreams(ctx, q); err != nil {
		return p, err
	}
	p.LaneActs, err = s.pruneLaneActs(ctx, q)
	return p, err
}

// removal removes the rows of one number.
type removal func(ctx context.Context, t *session, seq, now int64) error

func (s *Store) pruneAll(ctx context.Context, q store.PruneQuery, prunable string, remove removal) (pruned int, err error) {
	for pruned < q.Limit {
		want := min(pruneChunk, q.Limit-pruned)
		n, err := s.pruneSome(ctx, q, want, prunable, remove)
		pruned += n
		if err != nil {
			return pruned, err
		}
		if n < want {
			break
		}
	}
	return pruned, nil
}

func (s *Store) pruneSome(ctx context.Context, q store.PruneQuery, limit int, prunable string, remove removal) (n int, err error) {
	err = s.write(ctx, "prune", func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		var seqs []int64
		if err := t.sel(ctx, &seqs, prunable, sqlstore.ToMicro(now.Add(-q.OlderThan)), limit); err != nil {
			return err
		}
		for _, seq := range seqs {
			if err := remove(ctx, t, seq, sqlstore.ToMicro(now)); err != nil {
				return err
			}
		}
		n = len(seqs)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// prune does not rely on ON DELETE CASCADE, which works only where foreign_keys is on.
func (t *session) prune(ctx context.Context, seq, now int64, tombstone func(batch.ServiceID) bool) error {
	var service []string
	if err := t.sel(ctx, &service, sqlServiceOf, seq); err != nil {
		return err
	}
	if len(service) == 1 && tombstone(batch.ServiceID(service[0])) {
		if _, err := t.exec(ctx, sqlTomb, now, seq); err != nil {
			return err
		}
	}
	for _, query := range [...]string{sqlDeleteReceipts, sqlDeleteBatchActs, sqlDeleteAttempts, sqlDeleteTransactions, sqlDeletePayload, sqlDeleteFinal, sqlDeleteBatch} {
		if _, err := t.exec(ctx, query, seq); err != nil {
			return err
		}
	}
	return nil
}

func (t *session) pruneOrder(ctx context.Context, seq int64) error {
	for _, query := range [...]string{sqlDeleteOrderPayload, sqlDeleteOrderOutcome, sqlDeleteOrder} {
		if _, err := t.exec(ctx, query, seq); err != nil {
			return err
		}
	}
	return nil
}
