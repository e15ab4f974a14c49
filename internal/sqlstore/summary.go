package sqlstore

import (
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// Summary is [store.Store].Summary.
func (s *Store) Summary(ctx context.Context, name string) (store.Summary, error) {
	const op = "read a summary"
	if err := store.ValidSummaryName(name); err != nil {
		return store.Summary{}, s.d.Wrap(op, err)
	}
	return ask(ctx, s.d.Read, op, func(ctx context.Context, t Tx) (kept store.Summary, err error) {
		found, err := Query[turnCols](ctx, t, sqlSummary, name)
		if err != nil {
			return kept, err
		}
		kept.StatsTurn, kept.Text, kept.Now = found[0].turn(), found[0].Text, FromMicro(found[0].Now)
		return kept, nil
	})
}

// KeepSummary is [store.Store].KeepSummary.
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
