package memory_test

import (
	"context"
	"testing"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/batch/autobatch/ordertest"
	"github.com/dltbatch/dltbatch/store/memory"
)

func TestOrders(t *testing.T) {
	ordertest.Run(t, func(*testing.T) ordertest.Harness {
		s := memory.New()
		add := func(ctx context.Context, orders ...order.Order) (commit, rollback func() error, err error) {
			tx := s.Begin()
			return tx.Commit, tx.Rollback, s.AddOrdersTx(ctx, tx, orders...)
		}
		return ordertest.Harness{Store: s, StepClock: s.StepClock, Volatile: true, AddOrdersTx: add}
	})
}
