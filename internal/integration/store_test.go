package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The conformance suite, with every driver and with either of them through PgBouncer.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pgx, libpq, pgxBounced, pqBounced} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, d) })
		})
	}
}

func harness(t *testing.T, d driver) storetest.Harness {
	s := usedSpace(t, d)
	st, db := s.store()
	return storetest.Harness{
		Store: st,
		Reopen: func(t *testing.T) store.Store {
			require.NoError(t, db.Close())
			db = s.db()
			st, err := postgres.New(db, &postgres.Options{Schema: s.schema})
			require.NoError(t, err)
			return st
		},
		StepClock: s.step,
		AddTx: func(ctx context.Context, batches ...batch.Batch) (commit, rollback func() error, err error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, nil, err
			}
			if err := st.AddTx(ctx, tx, batches...); err != nil {
				return nil, nil, errors.Join(err, tx.Rollback())
			}
			return tx.Commit, tx.Rollback, nil
		},
	}
}
