package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Prune is [store.Store].Prune. It removes in small transactions. After an error or a cancelled
// context it returns the number removed so far, and the next call removes the rest.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (p store.Pruned, err error) {
	q = q.Bounded()
	if p.Batches, err = s.pruneAll(ctx, q, s.pruneBatches); err != nil {
		return p, err
	}
	if p.Orders, err = s.pruneAll(ctx, q, s.pruneOrders); err != nil {
		return p, err
	}
	if p.StreamIDs, err = s.pruneAll(ctx, q, s.pruneStreams); err != nil {
		return p, err
	}
	p.LaneActs, err = s.pruneAll(ctx, q, s.pruneLaneActs)
	return p, err
}

// pruneTx is one transaction of Prune. now is the database's clock, and until is the time of the
// youngest rows that it removes.
type pruneTx struct {
	Tx
	store.PruneQuery
	now, until int64
	maxRows    int
}

func (s *Store) pruneAll(ctx context.Context, q store.PruneQuery, remove func(context.Context, pruneTx) (int, error)) (pruned int, err error) {
	for pruned < q.Limit {
		want, n := min(s.driver.PruneChunk, q.Limit-pruned), 0
		err := s.driver.Pruning(ctx, "prune", func(ctx context.Context, t Tx) error {
			now, err := Now(ctx, t)
			if err != nil {
				return err
			}
			n, err = remove(ctx, pruneTx{t, q, now, now - int64(q.OlderThan/time.Microsecond), want})
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

// Aging are the kinds of rows that grow old.
type Aging int

// The kinds of rows.
const (
	AgingBatches Aging = iota
	AgingOrders
	AgingIDs
)

// Aged is a row that can be removed, and the time from which its age counts. A batch and an order
// have a number; an id in a stream's log has the two names.
type Aged struct {
	Seq    int64  `db:"seq"`
	Stream string `db:"stream"`
	ID     string `db:"id"`
	At     int64  `db:"at"`
}

func (s *Store) pruneBatches(ctx context.Context, r pruneTx) (int, error) {
	old, err := r.Old(ctx, AgingBatches, r.until, r.maxRows)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	if err := s.keepTombstones(ctx, r, old); err != nil {
		return 0, err
	}
	return len(old), removeOld(ctx, r, old, s.driver.PruneBatches)
}

// keepTombstones writes tombstones for the batches whose services keep them.
func (s *Store) keepTombstones(ctx context.Context, r pruneTx, old []Aged) error {
	of, err := Query[BatchCols](ctx, r, sqlServicesOf,
		r.Array(len(old), func(i int) any { return old[i].Seq }))
	if err != nil {
		return err
	}
	known, err := readLedgers(ctx, r, sqlServed, r.Array(len(of), func(i int) any { return of[i].ServiceID }))
	if err != nil {
		return err
	}
	var buried []int64
	for _, b := range of {
		if r.Tombstone(batch.ServiceID(b.ServiceID), known[b.ServiceID]) {
			buried = append(buried, b.Seq)
		}
	}
	if len(buried) == 0 {
		return nil
	}
	_, err = r.Exec(ctx, s.driver.Bury, r.Ints(buried), r.now)
	return err
}

func (s *Store) pruneOrders(ctx context.Context, r pruneTx) (int, error) {
	old, err := r.Old(ctx, AgingOrders, r.until, r.maxRows)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return len(old), removeOld(ctx, r, old, s.driver.PruneOrders)
}

// removeOld runs the statements that remove rows by their numbers.
func removeOld(ctx context.Context, r pruneTx, old []Aged, statements []string) error {
	rows := make([][]any, len(old))
	for i := range old {
		rows[i] = []any{old[i].Seq}
	}
	for _, statement := range statements {
		if _, err := r.ExecAll(ctx, statement, rows); err != nil {
			return err
		}
	}
	return nil
}

// pruneStreams removes old ids, and shortens the spans of their streams. It locks the streams
// first, as AppendStream does, and always in the same order.
func (s *Store) pruneStreams(ctx context.Context, r pruneTx) (int, error) {
	old, err := r.Old(ctx, AgingIDs, r.until, r.maxRows)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	streams, rows := make([]string, len(old)), make([][]any, len(old))
	for i, o := range old {
		streams[i], rows[i] = o.Stream, []any{o.Stream, o.ID, r.until}
	}
	slices.Sort(streams)
	names := textArray(r, slices.Compact(streams))
	if _, err := Query[string](ctx, r, sqlLockStreams, names); err != nil {
		return 0, err
	}
	if _, err := r.Exec(ctx, sqlRaiseSince, names, r.until); err != nil {
		return 0, err
	}
	_, err = r.ExecAll(ctx, s.driver.DeleteStreamIDs, rows)
	return len(old), err
}

// pruneLaneActs removes old acts of operators on lanes.
func (s *Store) pruneLaneActs(ctx context.Context, r pruneTx) (int, error) {
	n, err := r.Exec(ctx, s.driver.PruneLaneActs, r.until, int64(r.maxRows))
	return int(n), err
}
