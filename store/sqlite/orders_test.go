package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store/ordertest"
)

func TestOrders(t *testing.T) {
	ordertest.Run(t, func(t *testing.T) ordertest.Harness {
		s, clk, path := fresh(t)
		return ordertest.Harness{
			Store: s,
			Reopen: func(t *testing.T) ordertest.Store {
				require.NoError(t, s.db.Close())
				s = reopen(t, path, clk)
				return s
			},
			StepClock: clk.step,
			AddOrdersTx: func(ctx context.Context, orders ...batch.Order) (commit, rollback func() error, err error) {
				tx, err := s.db.BeginTx(ctx, nil)
				if err != nil {
					return nil, nil, err
				}
				if err := s.AddOrdersTx(ctx, tx, orders...); err != nil {
					return nil, nil, errors.Join(err, tx.Rollback())
				}
				return tx.Commit, tx.Rollback, nil
			},
			OneWriter: true,
		}
	})
}
