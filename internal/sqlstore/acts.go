package sqlstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// keepBatchAct adds an act to the history of a batch whose row is locked.
func keepBatchAct(ctx context.Context, t Tx, seq int64, a batch.Act) error {
	return appendAct(ctx, t, sqlInsertBatchAct, sqlTrimBatchActs, batch.MaxActs, []any{seq},
		string(a.Action), a.Actor, a.Reason, ToMicro(a.At), int64(a.From), int64(a.To))
}

// keepLaneAct adds an act to the history of a scope whose control is locked.
func keepLaneAct(ctx context.Context, t Tx, a batch.Act) error {
	return appendAct(ctx, t, sqlInsertLaneAct, sqlTrimLaneActs, batch.MaxActs, []any{a.Scope.All, string(a.Scope.Service)},
		string(a.Action), a.Actor, a.Reason, ToMicro(a.At), string(a.Batch), int64(a.Policy))
}

// appendAct adds an entry to a list, and keeps its newest `most` entries: insert returns the
// position of the new entry, and trim removes the entries up to a position.
func appendAct(ctx context.Context, t Tx, insert, trim string, most int64, of []any, values ...any) error {
	newest, _, err := Get[int64](ctx, t, insert, append(slices.Clip(of), values...)...)
	if err != nil || newest <= most {
		return err
	}
	_, err = t.Exec(ctx, trim, append(slices.Clip(of), newest-most)...)
	return err
}

// actCols is an act as a table has it. Columns that the table lacks stay zero.
type actCols struct {
	Action string `db:"action"`
	Actor  string `db:"actor"`
	Reason string `db:"reason"`
	At     int64  `db:"at"`
	From   int64  `db:"from_state"`
	To     int64  `db:"to_state"`
	Batch  string `db:"batch"`
	Policy int64  `db:"policy"`
}

func actsOf(found []actCols, scope batch.Scope) []batch.Act {
	acts := make([]batch.Act, len(found))
	for i, c := range found {
		acts[i] = batch.Act{
			By: batch.By{Actor: c.Actor, Reason: c.Reason}, Action: batch.Action(c.Action), At: FromMicro(c.At), Scope: scope,
			Batch: batch.ID(c.Batch), From: batch.State(c.From), To: batch.State(c.To),
			Policy: batch.Policy(c.Policy),
		}
	}
	return acts
}

// History is [store.Store].History.
func (s *Store) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	found, err := readRowsOfBatch[actCols](ctx, s, "read a history", key, sqlBatchActs)
	if err != nil {
		return nil, err
	}
	all := actsOf(found, batch.Only(key.Service))
	for i := range all {
		all[i].Batch = key.ID
	}
	return all, nil
}

// readRowsOfBatch returns the rows that a statement finds about a batch. The error wraps
// batch.ErrNotFound if the batch is not stored.
func readRowsOfBatch[T any](ctx context.Context, s *Store, op string, key batch.Key, statement string) ([]T, error) {
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) ([]T, error) {
		n, err := seqOf(ctx, t, key)
		if err != nil {
			return nil, err
		}
		return Query[T](ctx, t, statement, n)
	})
}

// LaneHistory is [store.Store].LaneHistory.
func (s *Store) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	const op = "read a lane's history"
	if err := scope.Validate(); err != nil {
		return nil, s.driver.Wrap(op, err)
	}
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) ([]batch.Act, error) {
		rows, err := Query[actCols](ctx, t, sqlLaneActs, scope.All, string(scope.Service))
		return actsOf(rows, scope), err
	})
}

// placedAct is an act with its place in the list of all acts.
type placedAct struct {
	actCols
	Everything bool   `db:"everything"`
	Service    string `db:"service_id"`
	Seq        int64  `db:"batch_seq"`
	Position   int64  `db:"position"`
	place      store.ActPlace
}

// Acts is [store.Store].Acts. It reads a page of each table, and merges them.
func (s *Store) Acts(ctx context.Context, q store.ActsQuery) (found []batch.Act, next store.Cursor, err error) {
	const op = "read the history"
	q = q.Bounded()
	from, err := store.ParseActPlace(q.After)
	if err != nil {
		return nil, "", s.driver.Wrap(op, err)
	}
	// Of several acts of one moment, the acts upon lanes come first.
	seq, position := from.Seq, from.Position
	if from.Lane {
		seq, position = math.MaxInt64, math.MaxInt64
	} else {
		from.All, from.Service, from.Position = false, "", 0
	}
	all, err := readResult(ctx, s.driver.Snapshot, op, func(ctx context.Context, t Tx) ([]placedAct, error) {
		all, err := Query[placedAct](ctx, t, sqlAllLaneActs, from.At, from.All, from.Service, from.Position, int64(q.Limit+1))
		if err != nil {
			return nil, err
		}
		for i := range all {
			p := &all[i]
			p.place.Lane, p.place.All, p.place.Service = true, p.Everything, p.Service
		}
		batches, err := Query[placedAct](ctx, t, sqlAllBatchActs, from.At, seq, position, int64(q.Limit+1))
		return append(all, batches...), err
	})
	if err != nil {
		return nil, "", err
	}
	for i := range all {
		p := &all[i]
		p.place.At, p.place.Seq, p.place.Position = p.At, p.Seq, p.Position
	}
	slices.SortFunc(all, func(a, b placedAct) int { return a.place.Compare(b.place) })
	if len(all) > q.Limit {
		all = all[:q.Limit]
		next = all[q.Limit-1].place.Cursor()
	}
	found = make([]batch.Act, len(all))
	for i, p := range all {
		found[i] = actsOf([]actCols{p.actCols}, batch.Scope{All: p.Everything, Service: batch.ServiceID(p.Service)})[0]
	}
	return found, next, nil
}

// reportCols is a row of the table of reports.
type reportCols struct {
	Attempt    int64  `db:"attempt"`
	At         int64  `db:"at"`
	Kind       string `db:"kind"`
	StatusCode int64  `db:"status_code"`
	Code       int64  `db:"code"`
	Endpoint   string `db:"endpoint"`
	Took       int64  `db:"took"` // microseconds
	Text       string `db:"answer"`
	Instance   string `db:"instance"`
}

// reportTimeIndex is the index of a report's time among the values of its row.
const reportTimeIndex = 2

// Reports returns the rows of the reports that are to be kept of applied outcomes. KeepReports
// writes them.
func Reports(outcomes []store.Outcome, applied []store.Applied) (rows [][]any) {
	for i := range outcomes {
		if r, ok := outcomes[i].Reported(applied[i], time.Time{}); ok {
			rows = append(rows, []any{
				applied[i].Ref.Row, int64(r.Attempt), nil, string(r.Kind), int64(r.StatusCode), int64(r.Code),
				r.Endpoint, int64(r.Took / time.Microsecond), r.Text, r.Instance,
			})
		}
	}
	return rows
}

// KeepReports keeps reports of batches whose rows are locked. insert and trim are statements for
// ExecAll. insert takes the rows. trim takes rows of two values: the number of a batch, and how
// many of its reports are kept beside the first one, at position 1.
func KeepReports(ctx context.Context, t Tx, rows [][]any, insert, trim string) error {
	if len(rows) == 0 {
		return nil
	}
	now, err := Now(ctx, t)
	if err != nil {
		return err
	}
	trims := make([][]any, len(rows))
	for i, row := range rows {
		row[reportTimeIndex], trims[i] = now, []any{row[0], int64(batch.MaxReports - 1)}
	}
	if _, err = t.ExecAll(ctx, insert, rows); err == nil {
		_, err = t.ExecAll(ctx, trim, trims)
	}
	return err
}

// Attempts is [store.Store].Attempts.
func (s *Store) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	found, err := readRowsOfBatch[reportCols](ctx, s, "read attempts", key, sqlAttempts)
	if err != nil {
		return nil, err
	}
	reports := make([]batch.Report, len(found))
	for i, c := range found {
		reports[i] = batch.Report{
			Attempt: int(c.Attempt), At: FromMicro(c.At), Kind: batch.ErrorKind(c.Kind), StatusCode: int(c.StatusCode), Code: int(c.Code),
			Endpoint: c.Endpoint, Took: time.Duration(c.Took) * time.Microsecond, Text: c.Text, Instance: c.Instance,
		}
	}
	return reports, nil
}

// Look is [store.Store].Look. It is one transaction that only reads, so it sees one moment.
func (s *Store) Look(ctx context.Context, key batch.Key, window int) (store.Look, error) {
	return readResult(ctx, s.driver.Snapshot, "look", func(ctx context.Context, t Tx) (store.Look, error) {
		return s.readLook(ctx, t, key, max(1, window))
	})
}

func (s *Store) readLook(ctx context.Context, t Tx, key batch.Key, window int) (l store.Look, err error) {
	found, err := Query[foundCols](ctx, t, s.driver.Look, hashText(key.ID))
	if err != nil {
		return l, err
	}
	if len(found) == 0 || found[0].Key() != key {
		return l, notFoundError(key)
	}
	b := &found[0]
	l.At, l.Ref, l.Row, l.Budget = FromMicro(b.Clock), b.Ref(), b.Row(), b.Budget()
	if b.Receipts > 0 {
		receipts, err := Receipts(ctx, t, []int64{b.Seq})
		if err != nil {
			return l, err
		}
		l.Row.Receipts = receipts[b.Seq]
	}
	l.Record = b.Record(l.Row)
	l.Record.Tags = decodeTags(b.Tags)
	if l.Footprint, err = DecodeFootprint(b.Footprint); err != nil {
		return l, fmt.Errorf("batch %s: %w", key, err)
	}
	if l.Everything, err = ControlNow(ctx, t, batch.Everything()); err != nil {
		return l, err
	}
	if l.Service, err = ControlNow(ctx, t, batch.Only(key.Service)); err != nil || l.Row.Final() {
		return l, err
	}
	lanes, err := t.Windows(ctx, []batch.ServiceID{key.Service}, nil, window)
	if err != nil {
		return l, err
	}
	l.Lane = lanes[0]
	return l, nil
}
