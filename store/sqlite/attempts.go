package sqlite

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// report keeps the outcome's report of its attempt, if any.
func (t *session) report(ctx context.Context, o store.Outcome, a store.Applied, now time.Time) error {
	r, ok := o.Reported(a, now)
	if !ok {
		return nil
	}
	c := sqlstore.ReportColsOf(r)
	args := []any{a.Ref.Row, a.Ref.Row, c.Attempt, c.At, c.Kind, c.StatusCode, c.Code, c.Endpoint, c.Took, c.Text, c.Instance}
	return t.keep(ctx, sqlInsertAttempt, args, sqlTrimAttempts, []any{a.Ref.Row}, sqlstore.OldReports)
}

// Attempts is [store.Inspector].Attempts.
func (s *Store) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	var found []sqlstore.ReportCols
	err := s.inspect(ctx, "read attempts", key, func(ctx context.Context, t *session, seq int64) error {
		return t.sel(ctx, &found, sqlAttempts, seq)
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.Reports(found), nil
}
