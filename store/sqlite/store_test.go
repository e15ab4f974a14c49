package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		tier.Suite(t, "TestStore")
		s, clk, path := fresh(t)
		return storetest.Harness{
			Store: s,
			Reopen: func(t *testing.T) store.Store {
				require.NoError(t, s.db.Close())
				s = reopen(t, path, clk)
				return s
			},
			StepClock: clk.step,
			AddTx: func(ctx context.Context, batches ...batch.Batch) (commit, rollback func() error, err error) {
				tx, err := s.db.BeginTx(ctx, nil)
				if err != nil {
					return nil, nil, err
				}
				if err := s.Tx(tx).Add(ctx, batches...); err != nil {
					return nil, nil, errors.Join(err, tx.Rollback())
				}
				return tx.Commit, tx.Rollback, nil
			},
			OneWriter: true,
		}
	})
}
