package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/batch/autobatch/ordertest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func TestOrders(t *testing.T) { testOrders(t, mattnDriver) }

func testOrders(t *testing.T, d testDriver) {
	tier.Plain(t)
	ordertest.Run(t, func(t *testing.T) ordertest.Harness {
		s, clk, path := d.fresh(t)
		return ordertest.Harness{
			Store: s,
			Reopen: func(t *testing.T) ordertest.Store {
				require.NoError(t, s.db.Close())
				s = d.reopen(t, path, clk)
				return s
			},
			StepClock: clk.step,
			AddOrdersTx: func(ctx context.Context, orders ...order.Order) (commit, rollback func() error, err error) {
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

// A write of an order names the version that it was decided on, and changes nothing if the order
// has another version.
func TestOrderWritesNameTheVersion(t *testing.T) {
	s, _, _ := newTestStore(t)
	ctx := t.Context()
	require.NoError(t, s.AddOrders(ctx, order.Order{ID: "a", Party: "p", Payload: []byte("x")}))
	next, err := s.NextOrders(ctx, "p", order.NextQuery{Max: 1})
	require.NoError(t, err)
	version := next[0].Version
	for _, was := range []int64{version - 1, version + 1, version} {
		for statement, row := range map[string][]any{
			sqlUpdateOrder:     {int64(1), was, int64(2), version, "b", int64(0), int64(1), ""},
			sqlDeleteOpenOrder: {int64(1), was},
		} {
			if was == version && statement == sqlDeleteOpenOrder {
				continue // the other statement has written this version
			}
			require.NoError(t, s.write(ctx, "write", func(ctx context.Context, t2 *session) error {
				n, err := t2.ExecAll(ctx, statement, [][]any{row})
				want := int64(0)
				if was == version {
					want = 1
				}
				require.Equal(t, want, n, "%s from version %d of %d", statement, was, version)
				return err
			}))
		}
	}
}
