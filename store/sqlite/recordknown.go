package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlrow"
	"github.com/dltbatch/dltbatch/store"
)

// recordKnown writes outcomes that come with the row they are about, where what they
// change is what almost all of them change, and returns the places of those that have to
// be read first. A row that has moved on since is one of them: what is written is
// compare-and-set on the version, here as everywhere, and on what a lease changes without
// raising it.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, now time.Time) (rest []int, err error) {
	named := make(map[batch.Key]int, len(outcomes)) // one that is named twice is read first
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

// saveKnown writes what becomes of a row, unless it is not what it was any more, or this
// has to be written another way.
func (t *session) saveKnown(ctx context.Context, seq int64, was, next *store.Row) (bool, error) {
	switch {
	case sqlrow.Advances(was, next):
		n, err := t.exec(ctx, sqlAdvance, int64(next.State), next.Version, sqlrow.ToMicro(next.ClaimExpires), sqlrow.ToMicro(next.NextCheck),
			sqlrow.ToMicro(next.LastPost), dueAt(*next), seq, was.Version, sqlrow.ToMicro(was.AskedAt))
		return n == 1, err
	case sqlrow.Finishes(was, next):
		n, err := t.exec(ctx, sqlDeleteKnown, seq, was.Version, sqlrow.ToMicro(was.AskedAt))
		if err != nil || n != 1 {
			return false, err
		}
		_, err = t.exec(ctx, sqlInsertFinal, finalArgs(seq, *next, 0)...)
		return true, err
	}
	return false, nil
}
