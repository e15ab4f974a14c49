package postgres

import (
	"context"
	"math"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// driver returns the parts of this package that the shared operations use.
func (s *Store) driver() sqlstore.Driver {
	as := sqlstore.Runner[*session]
	return sqlstore.Driver{
		Read: as(s.read), Write: as(s.tx), Adding: as(s.addTransaction), Snapshot: as(s.snapshotTx), Pruning: as(s.pruneTx), PruneChunk: 500,
		Delivering: as(s.deliverTx), Wrap: wrap, Want: schemaVersion, Have: s.schemaVersionOf, Unusable: &s.unusable,
		Counting: as(s.countTx), Surveying: as(s.surveyTx), Sizes: readSizes,
		Queries: sqlstore.Queries{
			State: stateOf, ListAll: listAll, ListOpen: listOpen, ListQuarantined: listQuarantined, ListTagged: listTagged,
			Look: sqlLook, CountRequeue: sqlCountRequeue,
			AllLanesFirst: sqlAllLanesFirst, AllLanesAfter: sqlAllLanesAfter, Counts: sqlCounts, CountOpen: sqlCountOpen,
			BriefCounts: briefCounts, BriefCountsEnd: briefCountsEnd, BriefRows: briefRows,
			LockOrders: sqlLockOrders, LockBatchOrders: sqlLockBatchOrders, UpdateOrders: sqlUpdateOrders, DeleteOpenOrders: sqlDeleteOpenOrders,
			InsertFinalOrders: sqlInsertFinalOrders,
			Expired:           sqlExpired, Settleable: sqlSettleable, PartiesFirst: sqlPartiesFirst, PartiesAfter: sqlPartiesAfter,
			SplitOrders: sqlSplitOrders, NextOrders: sqlNextOrders, QueuedOrders: sqlQueued,
			PruneBatches: []string{sqlDeleteReceipts, sqlPruneBatchActs, sqlPruneAttempts, sqlPruneTransactions, sqlPruneTags, sqlPruneOutcomes, sqlPruneBatches},
			PruneOrders:  []string{sqlPruneFinalOrders, sqlPruneOrders}, PruneLaneActs: sqlPruneLaneActs, Bury: sqlBury, Tombs: sqlTombs, TombsByHash: sqlTombsByHash, DeleteStreamIDs: sqlDeleteStreamIDs,
			Payloads: sqlPayloads, Witnesses: sqlWitnesses, SetChecks: sqlCheck,
		},
	}
}

// beginLook begins a transaction of which all statements see one moment.
const beginLook = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT " + beginLocal + ", " + planAnew

// snapshotTx is tx for a transaction of which all statements see one moment.
func (s *Store) snapshotTx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginLook, do)
}

// surveyTx is snapshotTx for a read of lanes in the order of an index. It forbids the plans that
// would sort.
func (s *Store) surveyTx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginLook+", set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)", do)
}

// deliverTx is a transaction that reads, with plans that the server may keep.
func (s *Store) deliverTx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginDeliver, do)
}

// Windows reads lanes as a claim sees them.
func (t *session) Windows(ctx context.Context, services []batch.ServiceID, low []int64, waiting int) ([][]store.LaneRow, error) {
	held := make([]heldLane, len(services))
	for i, service := range services {
		from := int64(math.MinInt64)
		if low != nil {
			from = low[i]
		}
		held[i] = heldLane{service, []position.Range{{From: from, To: math.MaxInt64}}}
	}
	windows, err := t.readAttempted(ctx, windowAttempted, held, services, func(batch.ServiceID, []store.LaneRow) int { return waiting })
	if err != nil {
		return nil, err
	}
	if err := t.readWaiting(ctx, windowWaiting, windows); err != nil {
		return nil, err
	}
	lanes := make([][]store.LaneRow, len(windows))
	for i, w := range windows {
		lanes[i] = w.lane
	}
	return lanes, nil
}

// NextKey returns an order key after all keys of the lane.
func (t *session) NextKey(ctx context.Context, service batch.ServiceID) (int64, error) {
	last := map[batch.ServiceID]int64{}
	now, _, err := t.readFacts(ctx, batchNumbering, []batch.ServiceID{service}, 0, last, customPlans)
	return max(now, last[service]+1), err
}
