package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// kept is a report to be kept.
type kept struct {
	seq int64
	n   int64 // counts the batch's reports in this call
	sqlstore.ReportCols
}

// report keeps the outcomes' reports of attempts. The rows are locked.
func (t *session) report(ctx context.Context, outcomes []store.Outcome, applied []store.Applied) error {
	var list []kept
	var now time.Time
	for i, o := range outcomes {
		r, ok := o.Reported(applied[i], now)
		if !ok {
			continue
		}
		if now.IsZero() {
			us, err := sqlstore.Now(ctx, t)
			if err != nil {
				return err
			}
			now = sqlstore.FromMicro(us)
			r.At = now
		}
		k := kept{seq: applied[i].Ref.Row, n: 1, ReportCols: sqlstore.ReportColsOf(r)}
		for _, other := range list {
			if other.seq == k.seq {
				k.n++
			}
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil
	}
	if err := t.planAnew(ctx); err != nil {
		return err
	}
	ints := func(at func(k *kept) int64) string {
		return intArray(len(list), func(i int) int64 { return at(&list[i]) })
	}
	texts := func(at func(k *kept) string) string {
		return textArray(len(list), func(i int) string { return at(&list[i]) })
	}
	type position struct{ seq, newest int64 }
	positions, err := sqlstore.Query(ctx, t, func(p *position) []any { return []any{&p.seq, &p.newest} }, sqlInsertAttempts,
		ints(func(k *kept) int64 { return k.seq }), ints(func(k *kept) int64 { return k.n }),
		ints(func(k *kept) int64 { return k.Attempt }), ints(func(k *kept) int64 { return k.At }),
		texts(func(k *kept) string { return k.Kind }), ints(func(k *kept) int64 { return k.StatusCode }),
		ints(func(k *kept) int64 { return k.Code }), texts(func(k *kept) string { return k.Endpoint }),
		ints(func(k *kept) int64 { return k.Took }), texts(func(k *kept) string { return k.Text }),
		texts(func(k *kept) string { return k.Instance }))
	if err != nil {
		return err
	}
	var seqs, old []int64
	for _, p := range positions {
		if last := p.newest - sqlstore.MostReports; last > 1 {
			seqs, old = append(seqs, p.seq), append(old, last)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	_, err = t.Exec(ctx, sqlTrimAttempts, intArray(len(seqs), func(i int) int64 { return seqs[i] }),
		intArray(len(old), func(i int) int64 { return old[i] }))
	return err
}
