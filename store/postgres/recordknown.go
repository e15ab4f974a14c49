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

// knownRow is an outcome that comes with its row.
type knownRow struct {
	at   int // in the call
	seq  int64
	was  *store.Row
	next *store.Row // in the answer
}

// recordKnown writes outcomes that come with their rows, and returns the places of the
// outcomes whose rows must be read first. A row that has moved on since is among them: every
// write is compare-and-set on the version. The clock is read before the rows are locked; this
// makes no difference, since a row that changes meanwhile is not written. From here on the
// transaction waits only briefly for locks, because it may hold locks that others wait for.
func (t *session) recordKnown(ctx context.Context, outcomes []store.Outcome, applied []store.Applied) (rest []int, err error) {
	named := make(map[batch.Key]int, len(outcomes)) // a batch named twice is read first
	asks := false
	for i := range outcomes {
		named[outcomes[i].Key]++
		asks = asks || outcomes[i].Was != nil
	}
	var us int64
	if asks {
		if us, _, err = sqlstore.Get[int64](ctx, t, sqlNowBrisk); err != nil {
			return nil, fmt.Errorf("read the clock: %w", err)
		}
	}
	var advance, finish []knownRow
	for i, o := range outcomes { // a void is about bytes that may have changed without a version
		if o.Was == nil || o.Was.Version != o.Version || o.Row == 0 || named[o.Key] > 1 || o.Finding == store.IsVoid {
			rest = append(rest, i)
			continue
		}
		_, applied[i] = o.Was.Apply(o, sqlstore.FromMicro(us))
		k := knownRow{at: i, seq: o.Row, was: o.Was, next: &applied[i].Row}
		switch {
		case applied[i].Result != store.Written || placeOf(*k.was) != inAttempted:
			rest = append(rest, i)
		case sqlstore.Advances(k.was, k.next):
			advance = append(advance, k)
		case sqlstore.Finishes(k.was, k.next):
			finish = append(finish, k)
		default:
			rest = append(rest, i)
		}
	}
	asked := make(map[int64]int64, len(advance)+len(finish)) // of the rows that were written
	var list []conns.Statement
	for _, step := range [...]struct {
		rows      []knownRow
		statement string
		args      func([]knownRow) []any
	}{{advance, sqlAdvance, advanceArgs}, {finish, sqlFinish, finishArgs}} {
		if len(step.rows) == 0 {
			continue
		}
		slices.SortFunc(step.rows, func(a, b knownRow) int { return cmp.Compare(a.seq, b.seq) })
		list = append(list, conns.Statement{Text: step.statement, Args: step.args(step.rows), Read: readAsked(asked)})
	}
	if len(list) == 0 {
		return rest, nil
	}
	if err := t.together(ctx, list...); err != nil {
		return nil, err
	}
	for _, k := range slices.Concat(advance, finish) {
		at, ok := asked[k.seq]
		if !ok {
			rest = append(rest, k.at)
			continue
		}
		k.next.AskedAt = sqlstore.FromMicro(at) // a lease raises no version
	}
	return rest, nil
}

// readAsked reads the numbers of rows that were written, and when somebody asked about them last.
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

func known64(rows []knownRow, at func(k *knownRow) int64) string {
	return intArray(len(rows), func(i int) int64 { return at(&rows[i]) })
}

func advanceArgs(rows []knownRow) []any {
	return []any{
		known64(rows, func(k *knownRow) int64 { return k.seq }),
		known64(rows, func(k *knownRow) int64 { return k.was.Version }),
		known64(rows, func(k *knownRow) int64 { return int64(k.next.State) }),
		known64(rows, func(k *knownRow) int64 { return sqlstore.ToMicro(k.next.ClaimExpires) }),
		known64(rows, func(k *knownRow) int64 { return sqlstore.ToMicro(k.next.NextCheck) }),
		known64(rows, func(k *knownRow) int64 { return sqlstore.ToMicro(k.next.LastPost) }),
		known64(rows, func(k *knownRow) int64 { return sqlstore.DueAt(*k.next) }),
	}
}

func finishArgs(rows []knownRow) []any {
	return []any{
		known64(rows, func(k *knownRow) int64 { return k.seq }),
		known64(rows, func(k *knownRow) int64 { return k.was.Version }),
		known64(rows, func(k *knownRow) int64 { return sqlstore.ToMicro(k.next.LastPost) }),
		int64(batch.Committed), sqlstore.ToMicro(rows[0].next.FinalAt),
	}
}
