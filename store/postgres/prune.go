package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// pruneChunk is how many batches are removed in one transaction.
const pruneChunk = 500

// Prune is [store.BatchStore].Prune. It removes in small transactions: what an
// error or a cancel leaves is removed by the next call, and counted now.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (int, error) {
	if q.Limit <= 0 {
		q.Limit = 500
	}
	batches, err := s.pruneAll(ctx, q, (*session).pruneBatches)
	if err != nil {
		return batches, err
	}
	orders, err := s.pruneAll(ctx, q, (*session).pruneOrders)
	if err != nil {
		return batches + orders, err
	}
	if err := s.pruneStreams(ctx, q); err != nil {
		return batches + orders, err
	}
	_, err = s.pruneAll(ctx, q, (*session).pruneLaneActs)
	return batches + orders, err
}

// removal removes up to limit of what was final by then.
type removal func(t *session, ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error)

func (s *Store) pruneAll(ctx context.Context, q store.PruneQuery, remove removal) (pruned int, err error) {
	for pruned < q.Limit {
		want, n := min(pruneChunk, q.Limit-pruned), 0
		err := s.tx(ctx, "prune", func(ctx context.Context, t *session) error {
			now, err := t.now(ctx)
			if err != nil {
				return err
			}
			n, err = remove(t, ctx, q, now, want)
			return err
		})
		if err != nil {
			return pruned, err
		}
		if pruned += n; n < want {
			break
		}
	}
	return pruned, nil
}

func (t *session) pruneBatches(ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error) {
	seqs, err := query(ctx, t, value[int64], sqlPrunable, now-int64(q.OlderThan/time.Microsecond), int64(limit))
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	if q.Tombstones {
		if _, err := t.exec(ctx, sqlBury, ints(seqs), now); err != nil {
			return 0, err
		}
	}
	return len(seqs), t.remove(ctx, seqs, sqlDeleteReceipts, sqlPruneBatchActs, sqlPruneAttempts, sqlPruneTransactions,
		sqlPruneOutcomes, sqlPruneBatches)
}

func (t *session) pruneOrders(ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error) {
	seqs, err := query(ctx, t, value[int64], sqlPrunableOrders, now-int64(q.OlderThan/time.Microsecond), int64(limit))
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return len(seqs), t.remove(ctx, seqs, sqlPruneFinalOrders, sqlPruneOrders)
}

// remove runs statements that remove what numbers stand for.
func (t *session) remove(ctx context.Context, seqs []int64, statements ...string) error {
	for _, statement := range statements {
		if _, err := t.exec(ctx, statement, ints(seqs)); err != nil {
			return err
		}
	}
	return nil
}
