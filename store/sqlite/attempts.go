package sqlite

import (
	"context"
	"time"

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
	return sqlstore.Keep(ctx, t, sqlInsertAttempt, sqlTrimAttempts, sqlstore.MostReports, []any{a.Ref.Row},
		c.Attempt, c.At, c.Kind, c.StatusCode, c.Code, c.Endpoint, c.Took, c.Text, c.Instance)
}
