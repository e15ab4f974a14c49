package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Pending is [store.Store].Pending.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) (found []store.InFlight, err error) {
	if q.Services == nil && s.isNothingUnderWay(ctx) {
		return []store.InFlight{}, nil
	}
	run := s.tx
	if q.Lease == 0 {
		run = s.read
	}
	err = run(ctx, "select pending batches", func(ctx context.Context, t *session) error {
		var statement string
		var args []any
		if q.Services == nil {
			if err := t.lookUnderWay(ctx, false); err != nil {
				return err
			}
			from, slow := s.positions.UnderWay.Where()
			statement, args = sqlDue, []any{int64(q.Limit), from, ints(slow), sqlstore.Ahead(q), int64(batch.Submitting)}
		} else {
			lanes := sqlstore.Services(q.Services)
			low, err := t.Floors(ctx, lanes)
			if err != nil {
				return err
			}
			statement, args = sqlOwned, []any{int64(q.Limit), texts(lanes), int64(batch.Submitting), ints(low)}
		}
		switch {
		case q.Lease != 0:
			args = append(args, q.Lease.Microseconds())
		case q.Services == nil:
			statement = sqlLookDue
		default:
			statement = sqlLookOwned
		}
		rows, err := sqlstore.Query[stored](ctx, t, statement, args...)
		if err != nil {
			return err
		}
		slices.SortFunc(rows, func(a, b stored) int {
			return cmp.Or(cmp.Compare(a.AskedWas, b.AskedWas), cmp.Compare(a.CreatedAt, b.CreatedAt),
				cmp.Compare(a.HeaderSignature, b.HeaderSignature))
		})
		found = make([]store.InFlight, 0, len(rows))
		var right rowArrays // the rows whose times are put right
		for i := range rows {
			r, now := &rows[i], sqlstore.FromMicro(rows[i].Clock)
			r.unpack()
			before := r.Now
			before.AskedAt = sqlstore.FromMicro(r.AskedWas)
			if before.Ahead(now) && q.Lease != 0 {
				r.Now = before.Leased(now, q.Lease)
				right.addRow(len(rows)).addAttempted(&r.Stored)
			}
			if r.Now.Monitored(now) { // due_at says the same, but the rule decides
				f := r.Now.InFlight(r.Ref(), r.Budget(), now)
				f.AskedAgo = r.Now.AskedAgo(sqlstore.FromMicro(r.AskedWas), now)
				found = append(found, f)
			}
		}
		if right.n == 0 {
			return nil
		}
		_, err = t.Exec(ctx, sqlUpdateAttempted, right.args()...)
		return err
	})
	if err != nil && !sqlstore.Maybe(err) {
		return nil, err
	}
	return found, err
}

// lookUnderWay reads from time to time where the monitor's rows begin.
func (t *session) lookUnderWay(ctx context.Context, upkeep bool) error {
	l, due := t.store.positions.UnderWay.Due(time.Now(), t.store.opts.AllowAsynchronousCommit, upkeep)
	if !due {
		return nil
	}
	var s position.ReadResult
	type row struct {
		Seq     int64 `db:"seq"`
		Made    int64 `db:"made_by"`
		Oldest  int64 `db:"oldest"`
		Later   int64 `db:"later"`
		Started int64 `db:"started"`
	}
	found, err := sqlstore.Query[row](ctx, t, sqlUnderWay, l.From, ints(l.Slow), int64(position.MostSlow+1))
	if err != nil {
		t.store.positions.UnderWay.Failed(l)
		return err
	}
	for _, r := range found {
		if s.OldestRunning, s.NextNumber, s.Incarnation = r.Oldest, r.Later, r.Started; r.Seq != 0 {
			s.Rows = append(s.Rows, position.NumberedRow{Seq: r.Seq, MadeBy: r.Made})
		}
	}
	if err := t.store.checkIncarnation(s.Incarnation); err != nil {
		t.store.positions.UnderWay.Failed(l)
		return err
	}
	t.store.positions.UnderWay.Saw(l, s)
	return nil
}

// isNothingUnderWay reports whether no row is under way, in one round trip. Some drivers need two
// for a statement with arguments, so the arguments are written into the text. The text changes
// when from moves, so a driver that prepares it does so twice a second at most.
func (s *Store) isNothingUnderWay(ctx context.Context) bool {
	from, started, enough := s.positions.UnderWay.Front(time.Now(), s.opts.AllowAsynchronousCommit)
	return enough && s.isFalse(ctx, strings.NewReplacer("$1", strconv.FormatInt(from, 10), "$2", strconv.FormatInt(started, 10)).Replace(s.sql(sqlAnyAttempted)))
}
