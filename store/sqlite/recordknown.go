package sqlite

import (
	"context"
	"fmt"
	"slices"
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
	var ends groups[ending]
	for i, o := range outcomes { // a void is about bytes that may have changed without a version
		did := false
		if o.Was != nil && o.Was.Version == o.Version && o.Row != 0 && named[o.Key] == 1 && o.Finding != store.IsVoid {
			if _, applied[i] = o.Was.Apply(o, now); applied[i].Result == store.Written {
				switch next := &applied[i].Row; {
				case sqlstore.Advances(o.Was, next):
					if did, err = t.advance(ctx, o.Row, o.Was, next); err != nil {
						return nil, fmt.Errorf("batch %s: %w", o.Key, err)
					}
				case sqlstore.Finishes(o.Was, next):
					ends.add(endingOf(o.Was, next), o.Row, i)
					continue
				}
			}
		}
		if !did {
			rest = append(rest, i)
		}
	}
	for _, g := range ends.list {
		left, err := t.finishAll(ctx, g)
		if err != nil {
			return nil, err
		}
		rest = append(rest, left...)
	}
	slices.Sort(rest)
	return rest, nil
}

// advance writes the next row of a batch that stays open. It returns false where the row has changed
// since.
func (t *session) advance(ctx context.Context, seq int64, was, next *store.Row) (bool, error) {
	n, err := t.Exec(ctx, sqlAdvance, int64(next.State), next.Version, sqlstore.ToMicro(next.ClaimExpires), sqlstore.ToMicro(next.NextCheck),
		sqlstore.ToMicro(next.LastPost), dueAt(*next), seq, was.Version, sqlstore.ToMicro(was.AskedAt))
	return n == 1, err
}

// ending is the change of a row that is known and ends: see sqlFinish.
type ending struct{ wasVersion, wasAsked, state, version, lastPost, finalAt int64 }

func endingOf(was, next *store.Row) ending {
	return ending{
		wasVersion: was.Version, wasAsked: sqlstore.ToMicro(was.AskedAt), state: int64(next.State), version: next.Version,
		lastPost: sqlstore.ToMicro(next.LastPost), finalAt: sqlstore.ToMicro(next.FinalAt),
	}
}

// finishAll moves the rows of a group to the outcomes, and returns the places of the rows that have
// changed since.
func (t *session) finishAll(ctx context.Context, g group[ending]) (left []int, err error) {
	if len(g.seqs) >= manyRows {
		rows := encode(g.seqs)
		if did, err := t.finish(ctx, g.of, len(g.seqs), sqlFinishMany, sqlDeleteMany, rows); did || err != nil {
			return nil, err
		}
		if _, err := t.Exec(ctx, sqlUnfinish, rows); err != nil {
			return nil, err
		}
	}
	for i, seq := range g.seqs {
		did, err := t.finish(ctx, g.of, 1, sqlFinish, sqlDelete, seq)
		if err != nil {
			return nil, err
		}
		if !did {
			left = append(left, g.places[i])
		}
	}
	return left, nil
}

// finish copies so many rows to the outcomes, and then deletes them where none has changed since.
func (t *session) finish(ctx context.Context, e ending, rows int, insert, remove string, seqs any) (bool, error) {
	n, err := t.Exec(ctx, insert, e.state, e.version, e.lastPost, e.finalAt, seqs, e.wasVersion, e.wasAsked)
	if err != nil || int(n) != rows {
		return false, err
	}
	n, err = t.Exec(ctx, remove, seqs)
	if err == nil && int(n) != rows {
		err = fmt.Errorf("%d rows deleted, want %d", n, rows)
	}
	return true, err
}
