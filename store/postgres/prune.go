package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// pruneChunk is how many batches are removed in one transaction.
const pruneChunk = 500

// Prune is [store.BatchStore].Prune. It removes in small transactions: after an error or a
// cancel it returns the number removed so far, and the next call removes the rest.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (p store.Pruned, err error) {
	q = q.Bounded()
	if p.Batches, err = s.pruneAll(ctx, q, (*session).pruneBatches); err != nil {
		return p, err
	}
	if p.Orders, err = s.pruneAll(ctx, q, (*session).pruneOrders); err != nil {
		return p, err
	}
	if p.StreamIDs, err = s.pruneStreams(ctx, q); err != nil {
		return p, err
	}
	p.LaneActs, err = s.pruneAll(ctx, q, (*session).pruneLaneActs)
	return p, err
}

// removal removes up to limit rows that are old enough at now.
type removal func(t *session, ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error)

func (s *Store) pruneAll(ctx context.Context, q store.PruneQuery, remove removal) (pruned int, err error) {
	for pruned < q.Limit {
		want, n, begun := min(pruneChunk, q.Limit-pruned), 0, false
		err := s.tx(ctx, "prune", func(ctx context.Context, t *session) error {
			if begun {
				s.forgetOldest() // it was rolled back
			}
			begun = true
			now, err := sqlstore.Now(ctx, t)
			if err != nil {
				return err
			}
			n, err = remove(t, ctx, q, now, want)
			return err
		})
		if err != nil {
			s.forgetOldest()
			return pruned, err
		}
		if pruned += n; n < want {
			break
		}
	}
	return pruned, nil
}

func (t *session) pruneBatches(ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error) {
	seqs, err := t.old(ctx, &t.s.oldBatches, sqlPrunable, now-int64(q.OlderThan/time.Microsecond), limit)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	if err := t.bury(ctx, seqs, q.Tombstone, now); err != nil {
		return 0, err
	}
	return len(seqs), t.remove(ctx, seqs, sqlDeleteReceipts, sqlPruneBatchActs, sqlPruneAttempts, sqlPruneTransactions,
		sqlPruneOutcomes, sqlPruneBatches)
}

// bury keeps tombstones of the batches whose services want them.
func (t *session) bury(ctx context.Context, seqs []int64, wanted func(batch.ServiceID) bool, now int64) error {
	type numbered struct {
		seq     int64
		service string
	}
	of, err := sqlstore.Query(ctx, t, func(n *numbered) []any { return []any{&n.seq, &n.service} }, sqlServicesOf, ints(seqs))
	if err != nil {
		return err
	}
	var buried []int64
	for _, n := range of {
		if wanted(batch.ServiceID(n.service)) {
			buried = append(buried, n.seq)
		}
	}
	if len(buried) == 0 {
		return nil
	}
	_, err = t.Exec(ctx, sqlBury, ints(buried), now)
	return err
}

func (t *session) pruneOrders(ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error) {
	seqs, err := t.old(ctx, &t.s.oldOrders, sqlPrunableOrders, now-int64(q.OlderThan/time.Microsecond), limit)
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return len(seqs), t.remove(ctx, seqs, sqlPruneFinalOrders, sqlPruneOrders)
}

// remove runs statements that remove rows by their numbers.
func (t *session) remove(ctx context.Context, seqs []int64, statements ...string) error {
	for _, statement := range statements {
		if _, err := t.Exec(ctx, statement, ints(seqs)); err != nil {
			return err
		}
	}
	return nil
}
