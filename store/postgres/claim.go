package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// freshLanesError names lanes that have no row that a claim could lock.
type freshLanesError []batch.ServiceID

func (f freshLanesError) Error() string {
	return fmt.Sprintf("%d lanes were never claimed from", len(f))
}

// Claim is [store.Store].Claim: one transaction (docs/design.md#how-a-claim-works). If choose
// panics, nothing is claimed. After a conflict with another transaction Claim begins again, asks
// choose again and drops the first answer. Claim skips locked lanes. It waits for another locked
// row for 1.5 s, and then fails.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	const op = "claim"
	q.Lanes = sqlstore.Services(q.Lanes)
	if unknown := s.positions.LanesWithRow.WithoutRow(q.Lanes); len(unknown) > 0 {
		if err := s.makeLaneRows(ctx, op, unknown); err != nil {
			return store.Claimed{}, err
		}
	}
	for try := 1; ; try++ {
		var claimed store.Claimed
		var fresh freshLanesError
		var from *position.Claim // where the open work of the lanes begins; made before the transaction begins
		err := s.txBefore(ctx, op, beginClaim, func() { from = s.positions.Lanes.Claim(time.Now()) }, func(ctx context.Context, t *session) (err error) {
			// Lanes that appear while this claim runs are left to the next claim.
			claimed, fresh, err = t.claim(ctx, q, choose, from, try > 1)
			if err == nil && len(fresh) > 0 {
				return fresh
			}
			return err
		})
		if errors.Is(err, ErrLostCommits) {
			return store.Claimed{}, s.reportLoss(ctx, err)
		}
		if len(fresh) == 0 {
			if err != nil && !sqlstore.Maybe(err) {
				return store.Claimed{}, err
			}
			return claimed, err
		}
		if err := s.makeLaneRows(ctx, op, fresh); err != nil {
			return store.Claimed{}, err
		}
	}
}

func (t *session) claim(ctx context.Context, q store.ClaimQuery, choose store.Choose, from *position.Claim, all bool) (out store.Claimed, fresh freshLanesError, err error) {
	q.Window = max(1, q.Window)
	lanes, left := q.Lanes, q.Limit
	var changed []*sqlstore.Stored
	for len(lanes) > 0 && left > 0 {
		some := lanes[:min(len(lanes), lanesTogether(q, left))]
		lanes = lanes[len(some):]
		got, locked, unknown, us, err := t.lock(ctx, some, from)
		if err == nil {
			err = t.checkLoss(ctx) // a pooler may have led a known connection to another server
		}
		if err != nil {
			return out, nil, err
		}
		if len(unknown) > 0 && !all {
			_, more, err := t.splitLanes(ctx, lanes) // the same lanes are not looked up again
			return out, append(unknown, more...), err
		}
		t.store.positions.LanesWithRow.Add(servicesOf(got))
		t.store.positions.LanesWithRow.Add(locked)
		out.Locked = append(out.Locked, locked...)
		now := sqlstore.FromMicro(us)
		windows, err := t.readAttempted(ctx, sqlAttempted, got, lanesWithout(some, locked), func(s batch.ServiceID, attempted []store.LaneRow) int {
			return store.Wanted(s, attempted, now, q)
		})
		if err != nil {
			return out, nil, err
		}
		for _, w := range windows {
			if w.wantedCount == 0 && !w.isClosed {
				t.noteRead(from, w, false)
			}
		}
		var first []*stored // the rows that this call claims for the first time
		left, err = sqlstore.PlanLanes(windows, now, &q, left, choose, &out, func(windows []*window) error {
			err := t.readWaiting(ctx, sqlWaiting, windows)
			for _, w := range windows {
				if err == nil && w.wantedCount > 0 {
					t.noteRead(from, w, true)
				}
			}
			return err
		}, func(w *window, _ []store.LaneRow) error {
			for i, s := range w.rows {
				switch s.Now = w.lane[i].Row; {
				case s.Now.Version == s.Was.Version:
				case s.isTaken():
					first = append(first, s)
				default:
					changed = append(changed, &s.Stored)
				}
			}
			return nil
		})
		if err != nil {
			return out, nil, err
		}
		if out.Payloads, err = t.writeTaken(ctx, out.Payloads, first, now, q); err != nil {
			return out, nil, err
		}
	}
	out.Left = append(out.Left, lanes...)
	if len(changed) == 0 {
		return out, nil, nil
	}
	if err := t.planAnew(ctx); err != nil {
		return out, nil, err
	}
	return out, nil, t.Save(ctx, changed)
}

// lanesTogether returns how many lanes a claim locks and looks up at once: not many more than the
// limit lets through. It returns some more if the claim knows how many waiting rows each lane
// wants before it reads them.
func lanesTogether(q store.ClaimQuery, left int) int {
	n := left / q.Window
	if q.Wants != nil {
		n = min(left, 4*n)
	}
	return min(max(n, 8), 500)
}

// lanesWithout returns the lanes that are not among others.
func lanesWithout(lanes, others []batch.ServiceID) []batch.ServiceID {
	if len(others) == 0 {
		return lanes
	}
	out := make(map[batch.ServiceID]struct{}, len(others))
	for _, s := range others {
		out[s] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(lanes), func(s batch.ServiceID) bool {
		_, found := out[s]
		return found
	})
}

// window is a claim's view of a lane, in order. Two statements read it. No row moves between
// attempted and waiting between the two, since only a claim moves a row and it needs the lane's
// lock.
type window struct {
	service     batch.ServiceID
	rows        []*stored
	lane        []store.LaneRow // the rows that the strategy sees
	waiting     []*stored       // the rows from the table of waiting batches
	wantedCount int             // the number of waiting rows that the lane wants
	ranges      []position.Range
	isClosed    bool // true if the first statement found the lane closed; the strategy then sees no row

	attemptedKeys, waitingKeys []int64 // the order keys that the two statements found, whether the lane is closed or not
}

// Wants returns how many waiting rows of the lane the claim wants.
func (w *window) Wants() (service batch.ServiceID, rows int) { return w.service, w.wantedCount }

// Rows returns the rows that the strategy sees.
func (w *window) Rows() []store.LaneRow { return w.lane }

// readAttempted reads the attempted rows of locked lanes, and returns the windows of all lanes in
// order. The windows of lanes that are not locked are empty. wanted returns how many waiting rows
// a lane wants.
func (t *session) readAttempted(ctx context.Context, statement string, locked []heldLane, all []batch.ServiceID,
	wanted func(batch.ServiceID, []store.LaneRow) int,
) ([]*window, error) {
	memory, keys := make([]window, len(all)), make([]int64, 2*len(all)) // most lanes have one attempted row
	lanes := make(map[batch.ServiceID]*window, len(all))
	windows := make([]*window, len(all))
	for i, service := range all {
		windows[i] = &memory[i]
		windows[i].service = service
		windows[i].attemptedKeys, windows[i].waitingKeys = keys[2*i:2*i:2*i+1], keys[2*i+1:2*i+1:2*i+2]
		lanes[service] = windows[i]
	}
	if len(locked) == 0 {
		return windows, nil
	}
	for _, l := range locked {
		lanes[l.service].ranges = l.ranges
	}
	_, ranges := rangeArrays(windows)
	open, err := sqlstore.Query[stored](ctx, t, statement, ranges[:3]...)
	if err != nil {
		return nil, err
	}
	for i := range open {
		s := &open[i]
		s.unpack()
		w := lanes[s.Key().Service]
		w.attemptedKeys, w.isClosed = append(w.attemptedKeys, s.CreatedAt), s.Closed
		if !s.Closed {
			w.rows = append(w.rows, s)
		}
	}
	for _, l := range locked {
		w := lanes[l.service]
		if w.isClosed {
			continue
		}
		sortByOrderKey(w.rows)
		if err := w.appendRows(w.rows); err != nil {
			return nil, err
		}
		w.wantedCount = wanted(l.service, w.lane)
	}
	return windows, nil
}

// readWaiting adds the first waiting rows, as many as each window wants. It reads the batches of
// those rows that this process does not know from their Add: in the same statement if that was
// necessary the last time, and otherwise afterwards.
func (t *session) readWaiting(ctx context.Context, statement string, windows []*window) error {
	var ask []*window
	total := 0
	for _, w := range windows {
		if w.wantedCount > 0 {
			ask, total = append(ask, w), total+w.wantedCount
		}
	}
	if len(ask) == 0 {
		return nil
	}
	parts, args := rangeArrays(ask)
	whole := t.store.hasReadUnknown.Load()
	found, err := sqlstore.QueryMany[stored](ctx, t, min(total, 1000), statement, append(args, whole)...)
	if err != nil {
		return err
	}
	var unknown []*stored
	for i := range found {
		s := &found[i]
		s.unpackWaiting()
		w := parts[s.Part-1].window
		s.ServiceID = string(w.service)
		if w.waitingKeys = append(w.waitingKeys, s.CreatedAt); s.Closed {
			continue
		}
		w.waiting = append(w.waiting, s)
		if b, known := t.store.addedBatches.Of(s.Seq, s.CreatedAt); known {
			s.HeaderSignature, s.BudgetAttempts, s.BudgetEveryTry = string(b.ID), int64(b.Budget.Attempts), b.Budget.EveryTry
			s.Footprint, s.Size, s.TraceParent = b.Footprint, b.Size, b.TraceParent
		} else {
			unknown = append(unknown, s)
		}
	}
	if len(found) > 0 {
		t.store.hasReadUnknown.Store(len(unknown) > 0)
	}
	if !whole {
		if err := t.readClaimable(ctx, unknown); err != nil {
			return err
		}
	}
	for _, w := range ask {
		w.waiting = slices.DeleteFunc(w.waiting, func(s *stored) bool { return s.HeaderSignature == "" }) // somebody removed the batch of such a row
		sortByOrderKey(w.waiting)
		first := w.waiting[:min(len(w.waiting), w.wantedCount)]
		w.rows = append(w.rows, first...)
		if err := w.appendRows(first); err != nil {
			return err
		}
	}
	return nil
}

// readClaimable reads the batches of waiting rows.
func (t *session) readClaimable(ctx context.Context, rows []*stored) error {
	if len(rows) == 0 {
		return nil
	}
	found, err := sqlstore.QueryMany[stored](ctx, t, len(rows), sqlClaimable, intArray(len(rows), func(i int) int64 { return rows[i].Seq }))
	for i := range found {
		s, r := &found[i], rows[found[i].Part-1]
		r.HeaderSignature, r.BudgetAttempts, r.BudgetEveryTry = s.HeaderSignature, s.BudgetAttempts, s.BudgetEveryTry
		r.Footprint, r.Size, r.TraceParent = s.Footprint, s.Size, s.TraceParent
	}
	return err
}

// rangePart is a range of the order keys of a lane.
type rangePart struct {
	*window
	position.Range
}

// rangeArrays returns the arguments of the statements that read windows. A lane is named once for
// each of its ranges.
func rangeArrays(windows []*window) (parts []rangePart, args []any) {
	parts = make([]rangePart, 0, len(windows))
	for _, w := range windows {
		for _, r := range w.ranges {
			parts = append(parts, rangePart{w, r})
		}
	}
	n := len(parts)
	return parts, []any{
		textArray(n, func(i int) string { return string(parts[i].service) }),
		intArray(n, func(i int) int64 { return parts[i].From }), intArray(n, func(i int) int64 { return parts[i].To }),
		intArray(n, func(i int) int64 { return int64(parts[i].wantedCount) }),
	}
}

// sortByOrderKey sorts rows by their order keys.
func sortByOrderKey(rows []*stored) {
	if len(rows) > 1 {
		slices.SortFunc(rows, func(a, b *stored) int {
			return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.HeaderSignature, b.HeaderSignature))
		})
	}
}

// appendRows appends rows to the lane that a strategy sees.
func (w *window) appendRows(rows []*stored) error {
	w.lane = slices.Grow(w.lane, len(rows))
	for _, s := range rows {
		footprint, err := sqlstore.DecodeFootprint(s.Footprint)
		if err != nil {
			return fmt.Errorf("batch %s: %w", s.Key(), err)
		}
		w.lane = append(w.lane, store.LaneRow{Ref: s.Ref(), Row: s.Now, Budget: s.Budget(), Footprint: footprint, Size: s.Size})
	}
	return nil
}

// isTaken reports whether a row is claimed for the first time, so that sqlTake writes it. Such a
// row was read as waiting, with two columns more than [store.NewRow], and a plan changes it in no
// other way.
func (s *stored) isTaken() bool { return s.Place != "" && s.Now.State == batch.Submitting }

// writeTaken writes rows that are claimed for the first time, and adds their payloads to payloads.
// It reads the payloads that are not known from an Add.
func (t *session) writeTaken(ctx context.Context, payloads map[int64][]byte, rows []*stored, now time.Time, q store.ClaimQuery,
) (map[int64][]byte, error) {
	if len(rows) == 0 {
		return payloads, nil
	}
	slices.SortFunc(rows, func(a, b *stored) int { return cmp.Compare(a.Seq, b.Seq) })
	of := func(at func(s *stored) int64) any {
		return intArray(len(rows), func(i int) int64 { return at(rows[i]) })
	}
	if payloads == nil {
		payloads = make(map[int64][]byte, len(rows))
	}
	type loaded struct {
		Seq     int64  `db:"seq"`
		Payload []byte `db:"serialized_batch"`
	}
	found, err := sqlstore.QueryMany[loaded](ctx, t, len(rows), sqlTake,
		textArray(len(rows), func(i int) string { return rows[i].Place }), of(func(s *stored) int64 { return s.Seq }), of(func(s *stored) int64 { return s.Was.Version }),
		of(func(s *stored) int64 { return int64(s.Now.Spent) }),
		of(func(s *stored) int64 { return sqlstore.ToMicro(s.Now.ResendUntil) }),
		int64(batch.Submitting), sqlstore.ToMicro(now.Add(q.TTL)), sqlstore.ToMicro(now), q.Instance, q.TTL.Microseconds(), int64(q.Salt),
		boolArray(len(rows), func(i int) bool {
			payload, known := t.store.addedBatches.Take(rows[i].Seq, rows[i].CreatedAt)
			if known {
				payloads[rows[i].Seq] = payload
			}
			return !known
		}))
	if err == nil && len(found) != len(rows) {
		err = fmt.Errorf("%w: %d rows claimed, want %d", sqlstore.ErrMoved, len(found), len(rows))
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.noteWrite(r.Key(), r.Seq, r.Now.Version)
	}
	for _, l := range found {
		if _, known := payloads[l.Seq]; !known {
			payloads[l.Seq] = l.Payload
		}
	}
	return payloads, nil
}
