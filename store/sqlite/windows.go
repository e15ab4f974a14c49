package sqlite

import (
	"cmp"
	"context"
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
	want    int // waiting rows wanted
}

// claimable is a batch with its footprint.
type claimable struct {
	sqlstore.Stored
	footprint batch.Footprint
	part      bool // only colsClaim is read yet
}

// wholeDest takes colsBatch, the footprint and colsOpen.
func (c *rowCols) wholeDest() []any {
	return append(append(c.BatchCols.Dest(), &c.footprint), c.RowCols.Dest()...)
}

// claimDest takes colsClaim.
func (c *rowCols) claimDest() []any {
	return []any{
		&c.Seq, &c.HeaderSignature, &c.ServiceID, &c.CreatedAt, &c.BudgetAttempts, &c.BudgetEveryTry, &c.footprint,
		&c.State, &c.Version, &c.Attempt, &c.Requeued, &c.asAdded,
	}
}

// claimable is the batch in the columns of colsClaim, where claim is set, or in all. Nothing else
// matters of a row that cannot be claimed, and nothing else exists of a row that is as it was
// added.
func (c *rowCols) claimable(claim bool) (r *claimable, err error) {
	r = &claimable{Stored: sqlstore.Stored{BatchCols: c.BatchCols}}
	if r.footprint, err = sqlstore.DecodeFootprint(c.footprint); err != nil {
		return nil, err
	}
	if !claim {
		r.Now, r.Had = c.Row(), c.Receipts
		return r, nil
	}
	r.Now = store.NewRow()
	r.Now.State, r.Now.Version, r.Now.Attempt, r.Now.Requeued = batch.State(c.State), c.Version, int(c.Attempt), c.Requeued
	r.part = !c.asAdded && r.Now.State.Claimable()
	return r, nil
}

// attempted reads the attempted rows of lanes, and returns the windows of all in order. wanted
// says how many waiting rows each lane wants.
func (t *session) attempted(ctx context.Context, query string, claim bool, services []batch.ServiceID,
	wanted func(batch.ServiceID, []store.LaneRow) int,
) ([]window, error) {
	found, err := t.claimables(ctx, query, claim, services)
	if err != nil {
		return nil, err
	}
	windows := make([]window, len(services))
	for i, s := range services {
		windows[i] = window{service: s, rows: found[s]}
		windows[i].want = wanted(s, laneRows(found[s]))
	}
	return windows, nil
}

// waiting adds the first waiting rows, as many as each window wants. One statement serves all
// windows that want the same number.
func (t *session) waiting(ctx context.Context, query string, claim bool, windows []window) error {
	ask := map[int][]batch.ServiceID{}
	for _, w := range windows {
		if w.want > 0 {
			ask[w.want] = append(ask[w.want], w.service)
		}
	}
	for want, services := range ask {
		found, err := t.claimables(ctx, query, claim, services, want)
		if err != nil {
			return err
		}
		for i := range windows {
			if w := &windows[i]; w.want == want {
				w.rows = append(w.rows, found[w.service]...)
			}
		}
	}
	return nil
}

// claimables are rows of lanes, by lane and in order.
func (t *session) claimables(ctx context.Context, query string, claim bool, services []batch.ServiceID, args ...any,
) (map[batch.ServiceID][]*claimable, error) {
	dest := (*rowCols).wholeDest
	if claim {
		dest = (*rowCols).claimDest
	}
	found := make(map[batch.ServiceID][]*claimable, len(services))
	parts := map[int64]*claimable{}
	err := sqlstore.Each(ctx, t, dest, func(c *rowCols) error {
		r, err := c.claimable(claim)
		if err != nil {
			return err
		}
		s := batch.ServiceID(r.ServiceID)
		if found[s] = append(found[s], r); r.part {
			parts[r.Seq] = r
		}
		return nil
	}, query, append([]any{encode(services)}, args...)...)
	if err != nil {
		return nil, err
	}
	for _, rows := range found {
		slices.SortFunc(rows, func(a, b *claimable) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	}
	return found, t.readRest(ctx, parts)
}

// readRest reads the other columns of rows.
func (t *session) readRest(ctx context.Context, parts map[int64]*claimable) error {
	if len(parts) == 0 {
		return nil
	}
	seqs := make([]int64, 0, len(parts))
	for seq := range parts {
		seqs = append(seqs, seq)
	}
	rows, err := t.openRows(ctx, seqs)
	for seq, row := range rows {
		parts[seq].Stored = *row
	}
	return err
}

func laneRows(found []*claimable) []store.LaneRow {
	rows := make([]store.LaneRow, len(found))
	for i, c := range found {
		rows[i] = store.LaneRow{Ref: c.Ref(), Row: c.Now, Budget: c.Budget(), Footprint: c.footprint}
	}
	return rows
}
