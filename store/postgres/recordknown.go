package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// recordKnown writes outcomes that come with their rows. It returns the indexes of the outcomes
// whose rows must be read first, including those whose row has changed since: every write is
// compare-and-set on the version. The clock is read before the rows are locked; this makes no
// difference, since a row that changes meanwhile is not written. From here on the transaction
// waits only briefly for locks, because it may hold locks that others wait for.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied) (_ []int, err error) {
	asks := false
	for i := range outcomes {
		asks = asks || outcomes[i].Was != nil
	}
	var us int64
	if asks {
		type seen struct {
			Now    int64  `db:"now"`
			Server string `db:"server"`
		}
		s, _, err := sqlstore.Get[seen](ctx, t, sqlNowBrisk)
		if err == nil {
			err = t.checkServer(s.Server)
		}
		if err != nil {
			return nil, fmt.Errorf("read the clock: %w", err)
		}
		us = s.Now
	}
	advance, finish, rest := sqlstore.SortKnown(outcomes, applied, sqlstore.FromMicro(us))
	asked := make(map[int64]int64, len(advance)+len(finish)) // when the monitor asked, by the number of the written row
	var list []conns.Statement
	for _, step := range [...]struct {
		rows      []sqlstore.KnownRow
		statement string
		args      func([]sqlstore.KnownRow) []any
	}{{advance, sqlAdvance, advanceArgs}, {finish, sqlFinish, finishArgs}} {
		if len(step.rows) == 0 {
			continue
		}
		slices.SortFunc(step.rows, func(a, b sqlstore.KnownRow) int { return cmp.Compare(a.Seq, b.Seq) })
		list = append(list, conns.Statement{Text: step.statement, Args: step.args(step.rows), Read: readAsked(asked)})
	}
	if len(list) == 0 {
		return rest, nil
	}
	if err := t.sendTogether(ctx, list...); err != nil {
		return nil, err
	}
	for _, k := range slices.Concat(advance, finish) {
		at, ok := asked[k.Seq]
		if !ok {
			rest = append(rest, k.At)
			continue
		}
		k.Next.AskedAt = sqlstore.FromMicro(at) // a lease changes AskedAt without a new version
		t.noteWrite(outcomes[k.At].Key, k.Seq, k.Next.Version)
	}
	return rest, nil
}

// readAsked reads the numbers of the written rows, and when somebody asked about each last.
func readAsked(asked map[int64]int64) func(rows sqlstore.Rows) error {
	return func(rows sqlstore.Rows) error {
		var seq, at int64
		into := []any{&seq, &at}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			asked[seq] = at
		}
		return rows.Err()
	}
}

func known64(rows []sqlstore.KnownRow, at func(k *sqlstore.KnownRow) int64) string {
	return intArray(len(rows), func(i int) int64 { return at(&rows[i]) })
}

func advanceArgs(rows []sqlstore.KnownRow) []any {
	return []any{
		known64(rows, func(k *sqlstore.KnownRow) int64 { return k.Seq }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return k.Was.Version }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return int64(k.Next.State) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Next.ClaimExpires) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Next.NextCheck) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Next.LastPost) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.DueAt(*k.Next) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Was.ClaimExpires) }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Next.MovedAt) }),
	}
}

func finishArgs(rows []sqlstore.KnownRow) []any {
	return []any{
		known64(rows, func(k *sqlstore.KnownRow) int64 { return k.Seq }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return k.Was.Version }),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Next.LastPost) }),
		int64(batch.Committed), sqlstore.ToMicro(rows[0].Next.FinalAt),
		known64(rows, func(k *sqlstore.KnownRow) int64 { return sqlstore.ToMicro(k.Was.ClaimExpires) }),
	}
}
