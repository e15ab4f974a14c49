package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// recordKnown writes outcomes that come with their rows and make a usual change, and returns
// the places of the outcomes whose rows must be read first. A row that has moved on since is
// among them: every write is compare-and-set on the version, and on asked_at, which a lease
// changes without raising the version.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, now time.Time) (rest []int, err error) {
	named := make(map[batch.Key]int, len(outcomes)) // a batch named twice is read first
	for i := range outcomes {
		named[outcomes[i].Key]++
	}
	for i, o := range outcomes {
		did := false
		if o.Was != nil && o.Was.Version == o.Version && o.Row != 0 && named[o.Key] == 1 {
			if _, applied[i] = o.Was.Apply(o, now); applied[i].Result == store.Written {
				if did, err = t.saveKnown(ctx, o.Row, o.Was, &applied[i].Row); err != nil {
					return nil, fmt.Errorf("batch %s: %w", o.Key, err)
				}
			}
		}
		if !did {
			rest = append(rest, i)
		}
	}
	return rest, nil
}

// saveKnown writes the next row. It returns false where the row has changed since, or the
// change needs another statement.
func (t *session) saveKnown(ctx context.Context, seq int64, was, next *store.Row) (bool, error) {
	switch {
	case sqlstore.Advances(was, next):
		n, err := t.exec(ctx, sqlAdvance, int64(next.State), next.Version, sqlstore.ToMicro(next.ClaimExpires), sqlstore.ToMicro(next.NextCheck),
			sqlstore.ToMicro(next.LastPost), dueAt(*next), seq, was.Version, sqlstore.ToMicro(was.AskedAt))
		return n == 1, err
	case sqlstore.Finishes(was, next):
		n, err := t.exec(ctx, sqlDeleteKnown, seq, was.Version, sqlstore.ToMicro(was.AskedAt))
		if err != nil || n != 1 {
			return false, err
		}
		_, err = t.exec(ctx, sqlInsertFinal, finalArgs(seq, *next, 0)...)
		return true, err
	}
	return false, nil
}
