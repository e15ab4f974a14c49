package sqlite

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// window is a claim's view of a lane, in order: the attempted rows, and then the first waiting
// rows.
type window struct {
	service batch.ServiceID
	rows    []*claimable
	wanted  int // the number of waiting rows that the lane wants
}

// Wants returns how many waiting rows of the lane the claim wants.
func (w *window) Wants() (service batch.ServiceID, rows int) { return w.service, w.wanted }

// Rows returns the rows that the strategy sees.
func (w *window) Rows() []store.LaneRow { return laneRows(w.rows) }

// claimable is a batch with its footprint.
type claimable struct {
	sqlstore.Stored
	footprint batch.Footprint
	size      int  // the bytes of the payload; read only by claims
	isPartial bool // true while only a few columns of the row were read
}

// claimable returns the batch in the columns of colsClaim if claim is true, and in all columns
// otherwise. A claim needs no other columns of a row that cannot be claimed.
func (c *rowCols) claimable(claim bool) (r *claimable, err error) {
	r = &claimable{Stored: sqlstore.Stored{BatchCols: c.BatchCols}, size: c.Size}
	if r.footprint, err = sqlstore.DecodeFootprint(c.Footprint); err != nil {
		return nil, err
	}
	if !claim {
		r.Now, r.Had = c.Row(), c.Receipts
		return r, nil
	}
	r.Now = store.NewRow()
	r.Now.State, r.Now.Version, r.Now.Attempt, r.Now.Requeued = batch.State(c.State), c.Version, int(c.Attempt), c.Requeued
	r.isPartial = r.Now.State.Claimable()
	return r, nil
}

// readAttempted reads the attempted rows of lanes, and returns the windows of all lanes in order.
// wanted returns how many waiting rows a lane wants.
func (t *session) readAttempted(ctx context.Context, query string, claim bool, services []batch.ServiceID,
	wanted func(batch.ServiceID, []store.LaneRow) int,
) ([]*window, error) {
	found, err := t.readClaimables(ctx, query, claim, services)
	if err != nil {
		return nil, err
	}
	windows := make([]*window, len(services))
	for i, s := range services {
		windows[i] = &window{service: s, rows: found[s], wanted: wanted(s, laneRows(found[s]))}
	}
	return windows, nil
}

// addWaiting adds the first waiting rows, as many as each window wants. One statement reads them
// for all windows that want the same number.
func (t *session) addWaiting(ctx context.Context, claim bool, windows []*window) error {
	ask := map[int][]batch.ServiceID{}
	for _, w := range windows {
		if w.wanted > 0 {
			ask[w.wanted] = append(ask[w.wanted], w.service)
		}
	}
	for want, services := range ask {
		var found map[batch.ServiceID][]*claimable
		var err error
		if claim {
			found, err = t.readFronts(ctx, services, want)
		} else {
			found, err = t.readClaimables(ctx, windowWaiting, false, services, want)
		}
		if err != nil {
			return err
		}
		for _, w := range windows {
			if w.wanted == want {
				w.rows = append(w.rows, found[w.service]...)
			}
		}
	}
	return nil
}

// readClaimables reads rows of lanes, and returns them by lane and in order.
func (t *session) readClaimables(ctx context.Context, query string, claim bool, services []batch.ServiceID, args ...any,
) (map[batch.ServiceID][]*claimable, error) {
	found := make(map[batch.ServiceID][]*claimable, len(services))
	parts := map[int64]*claimable{}
	err := sqlstore.Each(ctx, t, func(c *rowCols) error {
		r, err := c.claimable(claim)
		if err != nil {
			return err
		}
		s := batch.ServiceID(r.ServiceID)
		if found[s] = append(found[s], r); r.isPartial {
			parts[r.Seq] = r
		}
		return nil
	}, query, append([]any{jsonText(services)}, args...)...)
	if err != nil {
		return nil, err
	}
	sortLanes(found)
	return found, t.readRest(ctx, parts)
}

func sortLanes(found map[batch.ServiceID][]*claimable) {
	for _, rows := range found {
		slices.SortFunc(rows, func(a, b *claimable) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	}
}

// frontCols are the columns of sqlWaiting.
type frontCols struct {
	Lane      int   `db:"lane"` // the index of the lane in the list of lanes
	Seq       int64 `db:"seq"`
	CreatedAt int64 `db:"created_at"`
	State     int64 `db:"state"`
	Version   int64 `db:"version"`
	Attempt   int64 `db:"attempt"`
}

// readFronts returns the first waiting rows of lanes as a claim needs them, by lane and in order.
// It reads the batches only of those rows that this process does not know from their Add. It reads
// the other columns only of rows that have changed since they were added; every change of a
// waiting row raises its version.
func (t *session) readFronts(ctx context.Context, services []batch.ServiceID, want int) (map[batch.ServiceID][]*claimable, error) {
	found := make(map[batch.ServiceID][]*claimable, len(services))
	parts, unknown := map[int64]*claimable{}, map[int64]*claimable{}
	added := store.NewRow()
	err := sqlstore.Each(ctx, t, func(c *frontCols) (err error) {
		service := services[c.Lane]
		r := &claimable{Stored: sqlstore.Stored{
			BatchCols: sqlstore.BatchCols{Seq: c.Seq, ServiceID: string(service), CreatedAt: c.CreatedAt}, Now: added,
		}}
		found[service] = append(found[service], r)
		if c.State != int64(added.State) || c.Version != added.Version || int(c.Attempt) != added.Attempt {
			parts[c.Seq] = r
		}
		b, ok := t.fresh.Of(c.Seq, c.CreatedAt)
		if !ok {
			unknown[c.Seq] = r
			return nil
		}
		r.HeaderSignature, r.BudgetAttempts, r.BudgetEveryTry = string(b.ID), int64(b.Budget.Attempts), b.Budget.EveryTry
		r.TraceParent, r.size = b.TraceParent, b.Size
		r.footprint, err = sqlstore.DecodeFootprint(b.Footprint)
		return err
	}, sqlWaiting, jsonText(services), want)
	if err != nil {
		return nil, err
	}
	sortLanes(found)
	if err := t.readBatches(ctx, unknown); err != nil {
		return nil, err
	}
	return found, t.readRest(ctx, parts)
}

// readBatches reads the columns that never change of rows.
func (t *session) readBatches(ctx context.Context, rows map[int64]*claimable) error {
	if len(rows) == 0 {
		return nil
	}
	return sqlstore.Each(ctx, t, func(c *rowCols) (err error) {
		r := rows[c.Seq]
		r.BatchCols, r.size = c.BatchCols, c.Size
		r.footprint, err = sqlstore.DecodeFootprint(c.Footprint)
		return err
	}, sqlBatches, jsonText(slices.Collect(maps.Keys(rows))))
}

// readRest reads the other columns of rows that were read in part.
func (t *session) readRest(ctx context.Context, parts map[int64]*claimable) error {
	if len(parts) == 0 {
		return nil
	}
	rows, err := t.openRows(ctx, slices.Collect(maps.Keys(parts)))
	for seq, row := range rows {
		parts[seq].Stored = *row
	}
	return err
}

func laneRows(found []*claimable) []store.LaneRow {
	rows := make([]store.LaneRow, len(found))
	for i, c := range found {
		rows[i] = store.LaneRow{Ref: c.Ref(), Row: c.Now, Budget: c.Budget(), Footprint: c.footprint, Size: c.size}
	}
	return rows
}
