package sqlite

import (
	"context"
	"encoding/json"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// driver returns the parts of this package that the shared operations need.
func (s *Store) driver() sqlstore.Driver {
	as := sqlstore.Runner[*session]
	return sqlstore.Driver{
		Read: as(s.read), Write: as(s.write), Adding: as(s.write), Snapshot: as(s.snapshot),
		Pruning: as(s.write), PruneChunk: 100, // other writers wait no longer than the removal of 100 rows takes
		Delivering: as(s.read), Wrap: wrap, Want: schemaVersion, Have: s.schemaVersionOf, Unusable: &s.unusable,
		Counting: as(s.snapshot), Surveying: as(s.snapshot), Sizes: s.sizes,
		Queries: sqlstore.Queries{
			State: stateOf, ListAll: listAll, ListOpen: listOpen, ListQuarantined: listQuarantined, ListTagged: listTagged,
			Look:          sqlLook,
			AllLanesFirst: sqlAllLanesFirst, AllLanesAfter: sqlAllLanesAfter, Counts: sqlCounts, CountOpen: sqlCountOpen,
			BriefCounts: briefCounts, BriefCountsEnd: briefCountsEnd, BriefRows: briefRows, BriefAll: true,
			LockOrders: sqlLockOrders, LockBatchOrders: sqlstore.BatchOrders, UpdateOrders: sqlUpdateOrder, DeleteOpenOrders: sqlDeleteOpenOrder,
			InsertFinalOrders: sqlInsertFinalOrder,
			AnyExpired:        sqlAnyExpired, Expired: sqlExpired, Settleable: sqlSettleable, PartiesFirst: sqlPartiesFirst, PartiesAfter: sqlPartiesAfter,
			SplitOrders: sqlSplitOrders, NextOrders: sqlNextOrders, QueuedOrders: sqlQueued,
			// Nothing relies on ON DELETE CASCADE, which works only if foreign_keys is on.
			PruneBatches: []string{sqlDeleteReceipts, sqlDeleteBatchActs, sqlDeleteAttempts, sqlDeleteTransactions, sqlDeleteTags, sqlDeletePayload, sqlDeleteFinal, sqlDeleteBatch},
			PruneOrders:  []string{sqlDeleteOrderPayload, sqlDeleteOrderOutcome, sqlDeleteOrder}, PruneLaneActs: sqlPruneLaneActs,
			Bury: sqlBury, Tombs: sqlTombs, TombsByID: sqlTombsByID, DeleteStreamIDs: sqlDeleteStreamID,
			Payloads: sqlPayloads, Witnesses: sqlWitnesses, SetChecks: sqlSetCheck,
		},
	}
}

// Array returns a list as a JSON text.
func (t *session) Array(n int, at func(i int) any) any {
	list := make([]any, n)
	for i := range list {
		list[i] = at(i)
	}
	return jsonText(list)
}

// Ints returns a list of numbers as a JSON text.
func (t *session) Ints(list []int64) any { return jsonText(list) }

func jsonText(list any) string {
	b, _ := json.Marshal(list) //nolint:errchkjson // numbers, texts and booleans can always be encoded
	return string(b)
}

// ExecAll runs the statement for each row: SQLite prepares it once, and looks up each row by an
// index even if the planner has no statistics.
func (t *session) ExecAll(ctx context.Context, statement string, rows [][]any) (n int64, err error) {
	for _, row := range rows {
		did, err := t.Exec(ctx, statement, row...)
		if err != nil {
			return 0, err
		}
		n += did
	}
	return n, nil
}

// Floors returns nil: in SQLite no finished rows are among the open ones.
func (t *session) Floors(context.Context, []batch.ServiceID) ([]int64, error) { return nil, nil }

// NextKey returns an order key after all keys of the lane.
func (t *session) NextKey(ctx context.Context, service batch.ServiceID) (int64, error) {
	now, err := sqlstore.Now(ctx, t)
	if err != nil {
		return 0, err
	}
	last := map[batch.ServiceID]int64{}
	err = t.readLasts(ctx, last, sqlLaneLasts, jsonText([]batch.ServiceID{service}))
	return max(now, last[service]+1), err
}

// Windows reads lanes as a claim sees them.
func (t *session) Windows(ctx context.Context, services []batch.ServiceID, _ []int64, waiting int) ([][]store.LaneRow, error) {
	windows, err := t.readAttempted(ctx, windowAttempted, false, services, func(batch.ServiceID, []store.LaneRow) int { return waiting })
	if err != nil {
		return nil, err
	}
	if err := t.addWaiting(ctx, false, windows); err != nil {
		return nil, err
	}
	lanes := make([][]store.LaneRow, len(windows))
	for i, w := range windows {
		lanes[i] = w.Rows()
	}
	return lanes, nil
}

// Old finds rows of a kind.
func (t *session) Old(ctx context.Context, of sqlstore.Aging, until int64, limit int) ([]sqlstore.Aged, error) {
	statement := [...]string{sqlstore.AgingBatches: sqlPrunable, sqlstore.AgingOrders: sqlPrunableOrders, sqlstore.AgingIDs: sqlOldStreamIDs}[of]
	return sqlstore.Query[sqlstore.Aged](ctx, t, statement, until, int64(limit))
}
