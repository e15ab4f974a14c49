package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// recordKnown writes outcomes that come with their rows and make a usual change, and returns
// the places of the outcomes whose rows must be read first. A row that has moved on since is
// among them: every write is compare-and-set on the version, and on asked_at, which a lease
// changes without raising the version.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, now time.Time) ([]int, error) {
	advance, finish, rest := sqlstore.SortKnown(outcomes, applied, now)
	for _, k := range advance {
		did, err := t.advance(ctx, k.Seq, k.Was, k.Next)
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", outcomes[k.At].Key, err)
		}
		if !did {
			rest = append(rest, k.At)
		}
	}
	var ends groups[ending]
	for _, k := range finish {
		ends.add(endingOf(k.Was, k.Next), k.Seq, k.At)
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
