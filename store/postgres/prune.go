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
	pruned := 0
	for pruned < q.Limit {
		want := min(pruneChunk, q.Limit-pruned)
		n, err := s.pruneSome(ctx, q, want)
		pruned += n
		if err != nil || n < want {
			return pruned, err
		}
	}
	return pruned, nil
}

func (s *Store) pruneSome(ctx context.Context, q store.PruneQuery, limit int) (n int, err error) {
	err = s.tx(ctx, "prune", func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		seqs, err := query(ctx, t, value[int64], sqlPrunable, now-int64(q.OlderThan/time.Microsecond), int64(limit))
		if err != nil || len(seqs) == 0 {
			return err
		}
		list := ints(seqs)
		if q.Tombstones {
			if _, err := t.exec(ctx, sqlBury, list, now); err != nil {
				return err
			}
		}
		for _, statement := range [...]string{sqlDeleteReceipts, sqlPruneTransactions, sqlPruneOutcomes, sqlPruneBatches} {
			if _, err := t.exec(ctx, statement, list); err != nil {
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
