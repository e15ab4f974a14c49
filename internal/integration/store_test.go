package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/storetest"
)

// The conformance suite, with every driver, and with pgx's pool and lib/pq through PgBouncer.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{pooled, pgx, libpq, pooledBounced, pqBounced} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t, d) })
		})
	}
}

func harness(t *testing.T, d driver) storetest.Harness {
	s := usedSpace(t, d)
	a := s.app()
	return storetest.Harness{
		Store: a.whole(),
		Reopen: func(t *testing.T) store.Store {
			a.close()
			a = s.open(nil)
			return a.whole()
		},
		StepClock: s.step,
		AddTx: func(ctx context.Context, batches ...batch.Batch) (commit, rollback func() error, err error) {
			tx, err := a.begin(ctx)
			if err != nil {
				return nil, nil, err
			}
			if err := a.addTx(ctx, tx, batches...); err != nil {
				return nil, nil, errors.Join(err, tx.rollback())
			}
			return tx.commit, tx.rollback, nil
		},
	}
}
