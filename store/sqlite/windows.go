package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
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

// claimable is stored with its footprint.
type claimable struct {
	stored
	footprint batch.Footprint
	part      bool // only colsClaim is read yet
}

// wholeRow reads colsBatch, the footprint and colsOpen.
func wholeRow(c *cells) *claimable {
	r := &claimable{stored: stored{BatchCols: batchOf(c)}, footprint: footprintOf(c)}
	r.openOf(c)
	return r
}

// claimRow reads colsClaim. Nothing else matters of a row that cannot be claimed, and nothing
// else exists of a row that is as it was added.
func claimRow(c *cells) *claimable {
	r := &claimable{stored: stored{BatchCols: sqlstore.BatchCols{
		Seq: c.int64(), HeaderSignature: c.text(), ServiceID: c.text(), CreatedAt: c.int64(), BudgetAttempts: c.int(), BudgetEveryTry: c.bool(),
	}}, footprint: footprintOf(c)}
	r.now = store.NewRow()
	r.now.State, r.now.Version, r.now.Attempt, r.now.Requeued = batch.State(c.int()), c.int64(), c.int(), c.bool()
	r.part = !c.bool() && r.now.State.Claimable()
	return r
}

// attempted reads the attempted rows of lanes, and returns the windows of all in order. wanted
// says how many waiting rows each lane wants.
func (t *session) attempted(ctx context.Context, query string, read func(*cells) *claimable, services []batch.ServiceID,
	wanted func(batch.ServiceID, []store.LaneRow) int,
) ([]window, error) {
	found, err := t.claimables(ctx, query, read, services)
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
func (t *session) waiting(ctx context.Context, query string, read func(*cells) *claimable, windows []window) error {
	ask := map[int][]batch.ServiceID{}
	for _, w := range windows {
		if w.want > 0 {
			ask[w.want] = append(ask[w.want], w.service)
		}
	}
	for want, services := range ask {
		found, err := t.claimables(ctx, query, read, services, want)
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
func (t *session) claimables(ctx context.Context, query string, read func(*cells) *claimable, services []batch.ServiceID, args ...any,
) (map[batch.ServiceID][]*claimable, error) {
	names, err := json.Marshal(services)
	if err != nil {
		return nil, err
	}
	found := make(map[batch.ServiceID][]*claimable, len(services))
	parts := map[int64]*claimable{}
	err = t.each(ctx, func(c *cells) {
		r := read(c)
		s := batch.ServiceID(r.ServiceID)
		if found[s] = append(found[s], r); r.part {
			parts[r.Seq] = r
		}
	}, query, append([]any{string(names)}, args...)...)
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
		parts[seq].stored = *row
	}
	return err
}

func laneRows(found []*claimable) []store.LaneRow {
	rows := make([]store.LaneRow, len(found))
	for i, c := range found {
		rows[i] = store.LaneRow{Ref: c.Ref(), Created: sqlstore.FromMicro(c.CreatedAt), Row: c.now, Budget: c.Budget(), Footprint: c.footprint}
	}
	return rows
}
