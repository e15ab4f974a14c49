package sqlstore

import (
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// Summary is [store.SummaryKeeper].Summary.
func (s *Store) Summary(ctx context.Context, name string) (store.Summary, error) {
	const op = "read a summary"
	if err := store.ValidSummaryName(name); err != nil {
		return store.Summary{}, s.d.Wrap(op, err)
	}
	type row struct {
		turn, at, rest, now int64
		text                string
	}
	return ask(ctx, s.d.Read, op, func(ctx context.Context, t Tx) (kept store.Summary, err error) {
		found, err := Query(ctx, t, func(r *row) []any { return []any{&r.turn, &r.at, &r.rest, &r.text, &r.now} }, sqlSummary, name)
		if err != nil {
			return kept, err
		}
		r := found[0]
		kept.StatsTurn = store.StatsTurn{Turn: r.turn, At: FromMicro(r.at), Rest: FromMicro(r.rest)}
		kept.Text, kept.Now = r.text, FromMicro(r.now)
		return kept, nil
	})
}

// KeepSummary is [store.SummaryKeeper].KeepSummary.
func (s *Store) KeepSummary(ctx context.Context, name string, turn int64, next store.Summary) (bool, error) {
	const op = "keep a summary"
	if err := store.ValidSummaryName(name); err != nil {
		return false, s.d.Wrap(op, err)
	}
	return ask(ctx, s.d.Write, op, func(ctx context.Context, t Tx) (bool, error) {
		n, err := t.Exec(ctx, sqlKeepSummary, name, turn, next.Turn, ToMicro(next.At), ToMicro(next.Rest), next.Text)
		return n == 1, err
	})
}
