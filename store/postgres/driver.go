package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// driver is what the shared operations need of this package.
func (s *Store) driver() sqlstore.Driver {
	return sqlstore.Driver{
		Read: as(s.tx), Write: as(s.tx), Adding: as(s.adding),
		Wrap: wrap,
		Queries: sqlstore.Queries{
			State: stateOf, ListAll: listAll, ListOpen: listOpen, ListQuarantined: listQuarantined,
			AllLanesFirst: sqlAllLanesFirst, AllLanesAfter: sqlAllLanesAfter, Counts: sqlCounts,
			LockOrders: sqlLockOrders, LockBatchOrders: sqlLockBatchOrders, UpdateOrders: sqlUpdateOrders, DeleteOpenOrders: sqlDeleteOpenOrders,
			InsertFinalOrders: sqlInsertFinalOrders, DeleteUnsettled: sqlDeleteUnsettled,
			Expired: sqlExpired, Settleable: sqlSettleable, PartiesFirst: sqlPartiesFirst, PartiesAfter: sqlPartiesAfter,
			SplitOrders: sqlSplitOrders, NextOrders: sqlNextOrders, QueuedOrders: sqlQueued,
		},
	}
}

// as runs shared operations in transactions of this package.
func as(run func(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error) sqlstore.Run {
	return func(ctx context.Context, op string, do func(ctx context.Context, t sqlstore.Tx) error) error {
		return run(ctx, op, func(ctx context.Context, t *session) error { return do(ctx, t) })
	}
}
