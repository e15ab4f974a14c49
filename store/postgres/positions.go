package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// maxPositions is the largest number of lanes that a process remembers.
const maxPositions = 1 << 17

// heldLane is a lane that a claim has locked, with the ranges of order keys that the claim reads.
type heldLane struct {
	service batch.ServiceID
	ranges  []position.Range
}

func servicesOf(held []heldLane) []batch.ServiceID {
	names := make([]batch.ServiceID, len(held))
	for i, l := range held {
		names[i] = l.service
	}
	return names
}

// lockedRow is a row of the statements that lock lanes: a lane, the clock, and how often batches
// of the lane were requeued. If Xmin is not 0, the row is no lane, and has the incarnation and the
// transaction's own number in these columns.
type lockedRow struct {
	Service  batch.ServiceID `db:"service_id"`
	At       int64           `db:"at"`
	Requeues int64           `db:"requeues"`
	Xmin     int64           `db:"oldest"`
}

// noteAdders removes the row that is no lane from rows, and tells from about it.
func (t *session) noteAdders(ctx context.Context, from *position.Claim, rows []lockedRow) ([]lockedRow, error) {
	at := slices.IndexFunc(rows, func(r lockedRow) bool { return r.Xmin != 0 })
	if at < 0 {
		return rows, nil
	}
	r := rows[at]
	rows = slices.Delete(rows, at, at+1)
	if len(rows) == 0 {
		return nil, nil
	}
	if err := t.store.checkIncarnation(r.At); err != nil {
		return nil, err
	}
	look := position.ServerState{Incarnation: r.At, Xid: uint64(r.Requeues), Xmin: uint64(r.Xmin)}
	if from.SawServer(look, time.Now()) && !t.store.cannotReadLocks.Load() {
		return rows, t.readLocks(ctx, from, r.Xmin)
	}
	return rows, nil
}

// heldLanesOf returns the range from which each locked lane is read.
func heldLanesOf(from *position.Claim, rows []lockedRow) []heldLane {
	held := make([]heldLane, len(rows))
	for i, r := range rows {
		held[i] = heldLane{r.Service, from.Ranges(r.Service, r.Requeues, r.At)}
	}
	return held
}

// readLocks reads which transactions may be adding. A server that shows all locks also shows the
// oldest running transaction. A server that does not show that transaction may also hide
// transactions that add.
func (t *session) readLocks(ctx context.Context, from *position.Claim, xmin int64) error {
	type adders struct {
		Names string `db:"names"`
		All   bool   `db:"everything"`
	}
	found, err := sqlstore.Query[adders](ctx, t, sqlAdders, fmt.Sprint(xmin%(1<<32)))
	if err != nil {
		switch sqlState(err) {
		case insufficientPrivilege, undefinedTable, undefinedFunction, featureNotSupported:
			t.store.cannotReadLocks.Store(true)
			return fmt.Errorf("%w: pg_locks: %w", sqlstore.ErrMoved, err)
		}
		return err
	}
	if found[0].All {
		from.SawLocks(strings.Fields(found[0].Names))
	}
	return nil
}

// noteRead tells from which rows of a lane were read. asked is true if the waiting rows were read.
func (t *session) noteRead(from *position.Claim, w *window, asked bool) {
	seen := position.Window{Attempted: w.attemptedKeys, Waiting: w.waitingKeys, Limit: w.wantedCount, Open: asked}
	if from.SawWindow(w.service, seen) {
		t.store.lastHidden.Store(&hiddenBatch{time.Now(), w.service})
	}
}

// Floors returns the order keys below which nothing of these lanes is open, as far as this process
// knows. It is for a reader without the lanes' locks, who may miss a row that is put below its
// floor after this call.
func (t *session) Floors(ctx context.Context, lanes []batch.ServiceID) (floors []int64, err error) {
	known, started := t.store.positions.Lanes.Floors(lanes)
	return t.unchangedFloors(ctx, lanes, known, started)
}

// scanFloors returns floors for a scan: see [position.Lanes.ScanFloors].
func (t *session) scanFloors(ctx context.Context, lanes []batch.ServiceID) (floors []int64, err error) {
	known, started := t.store.positions.Lanes.ScanFloors(lanes, time.Now())
	return t.unchangedFloors(ctx, lanes, known, started)
}

// unchangedFloors returns the known floor of each lane that has not changed since it became known,
// and the least key for other lanes.
func (t *session) unchangedFloors(ctx context.Context, lanes []batch.ServiceID, known []position.Floor, started int64) (floors []int64, err error) {
	floors = make([]int64, len(lanes))
	for i := range floors {
		floors[i] = math.MinInt64
	}
	if !slices.ContainsFunc(known, func(f position.Floor) bool { return f.From != math.MinInt64 }) {
		return floors, nil
	}
	column := func(of func(position.Floor) int64) any {
		return intArray(len(known), func(i int) int64 { return of(known[i]) })
	}
	type floor struct {
		N    int64 `db:"n"`
		From int64 `db:"low"`
	}
	found, err := sqlstore.Query[floor](ctx, t, sqlFloors, texts(lanes),
		column(func(f position.Floor) int64 { return f.From }), column(func(f position.Floor) int64 { return f.Requeues }),
		column(func(f position.Floor) int64 { return f.Clock }), started)
	for _, f := range found {
		floors[f.N-1] = f.From
	}
	return floors, err
}
