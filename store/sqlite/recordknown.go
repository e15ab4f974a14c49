package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// recordKnown writes outcomes that come with their rows and make a usual change. It returns the
// indexes of the outcomes whose rows must be read first, including those whose row has changed
// since: every write is compare-and-set on the version, and on asked_at, which a lease changes
// without a new version. If together is true it writes many rows with one statement, or fails with
// errMovedOn.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied, now time.Time, together bool) ([]int, error) {
	advance, finish, rest := sqlstore.SortKnown(outcomes, applied, now)
	var moves changeGroups[rowMove]
	for _, k := range advance {
		moves.add(moveOf(k.Was, k.Next), k.Seq, k.At)
	}
	for _, g := range moves.list {
		left, err := t.moveAll(ctx, g, together)
		if err != nil {
			return nil, err
		}
		rest = append(rest, left...)
	}
	var ends changeGroups[rowEnding]
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

// rowMove is the change of a known row that stays open: see sqlAdvance.
type rowMove struct {
	wasVersion, wasAsked, state, version, claimExpires, nextCheck, lastPost, dueAt, movedAt int64
}

func moveOf(was, next *store.Row) rowMove {
	return rowMove{
		wasVersion: was.Version, wasAsked: sqlstore.ToMicro(was.AskedAt), state: int64(next.State), version: next.Version,
		claimExpires: sqlstore.ToMicro(next.ClaimExpires), nextCheck: sqlstore.ToMicro(next.NextCheck),
		lastPost: sqlstore.ToMicro(next.LastPost), dueAt: sqlstore.DueAt(*next), movedAt: sqlstore.ToMicro(next.MovedAt),
	}
}

// errMovedOn ends a transaction that was to write many rows together, and found that some have
// changed since. The statement does not say which of the rows it has written.
var errMovedOn = errors.New("rows have changed since")

// moveAll writes the next rows of a group. It returns the indexes of the rows that have changed
// since.
func (t *session) moveAll(ctx context.Context, g changeGroup[rowMove], together bool) (left []int, err error) {
	m := g.change
	write := func(statement string, seqs any) (int64, error) {
		return t.Exec(ctx, statement, m.state, m.version, m.claimExpires, m.nextCheck, m.lastPost, dueArg(m.dueAt), m.movedAt, seqs, m.wasVersion, m.wasAsked)
	}
	if together && len(g.seqs) >= manyRows {
		n, err := write(sqlAdvanceMany, jsonText(g.seqs))
		if err == nil && int(n) != len(g.seqs) {
			err = errMovedOn
		}
		return nil, err
	}
	for i, seq := range g.seqs {
		n, err := write(sqlAdvance, seq)
		if err != nil {
			return nil, err
		}
		if n != 1 {
			left = append(left, g.places[i])
		}
	}
	return left, nil
}

// rowEnding is the change of a known row that becomes final: see sqlFinish.
type rowEnding struct{ wasVersion, wasAsked, state, version, lastPost, finalAt int64 }

func endingOf(was, next *store.Row) rowEnding {
	return rowEnding{
		wasVersion: was.Version, wasAsked: sqlstore.ToMicro(was.AskedAt), state: int64(next.State), version: next.Version,
		lastPost: sqlstore.ToMicro(next.LastPost), finalAt: sqlstore.ToMicro(next.FinalAt),
	}
}

// finishAll moves the rows of a group to the outcomes. It returns the indexes of the rows that
// have changed since.
func (t *session) finishAll(ctx context.Context, g changeGroup[rowEnding]) (left []int, err error) {
	if len(g.seqs) >= manyRows {
		rows := jsonText(g.seqs)
		if did, err := t.finish(ctx, g.change, len(g.seqs), sqlFinishMany, sqlDeleteMany, rows); did || err != nil {
			return nil, err
		}
		if _, err := t.Exec(ctx, sqlUnfinish, rows); err != nil {
			return nil, err
		}
	}
	for i, seq := range g.seqs {
		did, err := t.finish(ctx, g.change, 1, sqlFinish, sqlDelete, seq)
		if err != nil {
			return nil, err
		}
		if !did {
			left = append(left, g.places[i])
		}
	}
	return left, nil
}

// finish copies rows to the outcomes, and then deletes the open rows if none has changed since.
// rows is their number.
func (t *session) finish(ctx context.Context, e rowEnding, rows int, insert, remove string, seqs any) (bool, error) {
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
