package sqlite

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Record is [store.Store].Record. All outcomes of a call are one transaction.
func (s *Store) Record(ctx context.Context, outcomes []store.Outcome) ([]store.Applied, error) {
	if len(outcomes) == 0 {
		return nil, nil
	}
	clean := sqlstore.Sanitised(outcomes)
	var applied []store.Applied
	record := func(together bool) error {
		return s.write(ctx, "record", func(ctx context.Context, t *session) (err error) {
			applied, err = t.record(ctx, clean, together)
			return err
		})
	}
	err := record(true)
	if errors.Is(err, errMovedOn) {
		err = record(false)
	}
	if err != nil {
		return nil, err
	}
	return applied, nil
}

func (t *session) record(ctx context.Context, outcomes []store.Outcome, together bool) ([]store.Applied, error) {
	now, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	applied := make([]store.Applied, len(outcomes))
	rest, err := t.recordKnown(ctx, outcomes, applied, now, together)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		if err := sqlstore.RecordRead(ctx, t, outcomes, applied, rest, sqlHalt); err != nil {
			return nil, err
		}
	}
	return applied, sqlstore.KeepReports(ctx, t, sqlstore.Reports(outcomes, applied), sqlInsertAttempt, sqlTrimAttempts)
}
