package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// anyTombstoneStatement returns the statement that reads whether the database has tombstones.
// Above READ COMMITTED that statement does not read it: see [session.probeTombstones].
func (t *session) anyTombstoneStatement(yes *bool) conns.Statement {
	if t.isolation.hidesCommits() {
		return conns.Statement{Text: sqlCustomPlans}
	}
	return conns.Statement{Text: sqlAnyBuried, Args: []any{customPlans}, Read: func(rows sqlstore.Rows) error {
		for rows.Next() {
			if err := rows.Scan(yes); err != nil {
				return err
			}
		}
		return rows.Err()
	}}
}

// probeTombstones reports whether one of the added batches may have a tombstone, in a transaction
// whose snapshot may not show it. It inserts tombstones and deletes them again. Unlike a read, an
// insert finds a tombstone that the snapshot does not show: it fails with serializationFailure,
// and the batch is not executed a second time. An insert also takes no predicate lock. In a
// serializable transaction any read of the table locks whole pages of its index, and transactions
// of different lanes would fail.
func (t *session) probeTombstones(ctx context.Context, in []*addition) (buried bool, err error) {
	var added []*addition
	for _, a := range in {
		if a.Seq != 0 {
			added = append(added, a)
		}
	}
	n := len(added)
	if n == 0 {
		return false, nil
	}
	places, err := sqlstore.Query[string](ctx, t, sqlProbe,
		hashArray(n, func(i int) [16]byte { return added[i].IDHash }),
		textArray(n, func(i int) string { return string(added[i].ID) }),
		textArray(n, func(i int) string { return string(added[i].Service) }),
		textArray(n, func(i int) string { return added[i].DataChangeID }))
	if err != nil || len(places) == 0 {
		return true, err
	}
	// The rows are deleted by their places, because a search of an index would lock its pages.
	_, err = t.Exec(ctx, sqlUnprobe, textArray(len(places), func(i int) string { return places[i] }))
	return len(places) < n, err
}

// buriedCols is a tombstone, and the index of its batch in the arguments.
type buriedCols struct {
	N int64 `db:"n"`
	sqlstore.TombCols
}

// removeEnded removes added batches whose ids or keys have tombstones, because retention had
// removed them before. A batch that has ended without taking effect is an error. For a known
// batch, which was not added, only the bytes are compared with its own tombstone.
func (t *session) removeEnded(ctx context.Context, in []*addition) error {
	buried, err := sqlstore.Query[buriedCols](ctx, t, sqlBuried, hashArray(len(in), func(i int) [16]byte { return in[i].IDHash }))
	if err != nil {
		return err
	}
	var remove []int64
	for i := range buried {
		a := in[buried[i].N-1]
		if err := buried[i].OfID(a); err != nil {
			return err
		}
		if remove, err = appendBuried(remove, a, buried[i].Record()); err != nil {
			return err
		}
	}
	var keyed []*addition
	for _, a := range in {
		if a.Seq != 0 && a.DataChangeID != "" {
			keyed = append(keyed, a)
		}
	}
	if len(keyed) > 0 {
		buried, err = sqlstore.Query[buriedCols](ctx, t, sqlBuriedChange,
			textArray(len(keyed), func(i int) string { return string(keyed[i].Service) }),
			textArray(len(keyed), func(i int) string { return keyed[i].DataChangeID }))
		if err != nil {
			return err
		}
	} else {
		buried = nil
	}
	for i := range buried {
		a := keyed[buried[i].N-1]
		if err := buried[i].OfChange(a); err != nil {
			return err
		}
		if remove, err = appendBuried(remove, a, buried[i].Record()); err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	for _, statement := range [...]string{sqlDeleteQueued, sqlPruneTransactions, sqlPruneTags, sqlPruneBatches} {
		if _, err := t.Exec(ctx, statement, ints(remove)); err != nil {
			return err
		}
	}
	return nil
}

// appendBuried appends the number of an added batch to the numbers of the batches that are removed
// again.
func appendBuried(remove []int64, a *addition, remains batch.Record) ([]int64, error) {
	if a.Seq == 0 {
		return remove, nil
	}
	if err := store.AddedAgain(remains); err != nil {
		return nil, err
	}
	remove, a.Seq = append(remove, a.Seq), 0
	return remove, nil
}
