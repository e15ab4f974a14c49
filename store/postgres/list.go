package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// How many records a List returns.
const (
	listDefault = 100
	listMost    = 1000
)

// Get is [store.BatchStore].Get.
func (s *Store) Get(ctx context.Context, key batch.Key) (rec batch.Record, err error) {
	err = s.tx(ctx, "get", func(ctx context.Context, t *session) error {
		found, err := t.records(ctx, s.sql(sqlGet), idHash(key.ID))
		switch {
		case err != nil:
			return err
		case len(found) == 0 || found[0].Key != key:
			return fmt.Errorf("%w: %s", batch.ErrNotFound, key)
		}
		rec = found[0]
		return nil
	})
	return rec, err
}

// List is [store.BatchStore].List. Without a service it also reads the records that the other
// conditions exclude: it is for people and tools.
func (s *Store) List(ctx context.Context, q store.ListQuery) (found []batch.Record, next store.Cursor, err error) {
	if q.Limit <= 0 {
		q.Limit = listDefault
	}
	q.Limit = min(q.Limit, listMost)
	if _, _, err := listSQL(q, 0, math.MinInt64); err != nil {
		return nil, "", wrap("list", err)
	}
	err = s.tx(ctx, "list", func(ctx context.Context, t *session) (err error) {
		var now int64
		if q.OlderThan > 0 || q.NewerThan > 0 { // a value, which an index can search for; the clock function cannot be
			if now, err = t.now(ctx); err != nil {
				return err
			}
		}
		low := []int64{math.MinInt64}
		if q.Service != nil && (q.Open || onlyOpen(q.States)) {
			if low, err = t.floors(ctx, sqlstore.Services([]batch.ServiceID{*q.Service})); err != nil {
				return err
			}
			low = append(low, math.MinInt64)
		}
		text, args, err := listSQL(q, now, low[0])
		if err != nil {
			return err
		}
		found, err = t.records(ctx, s.names.fill(text), args...)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(found) > q.Limit {
		found = found[:q.Limit]
		next = store.CursorAfter(found[q.Limit-1].CreatedAt, string(found[q.Limit-1].ID))
	}
	return found, next, nil
}

// listSQL builds the statement, which asks for one record more than the limit. now is the
// database's clock in microseconds, where the query has ages; low is an order key below which
// nothing of the lane is open.
func listSQL(q store.ListQuery, now, low int64) (string, []any, error) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprint("$", len(args))
	}
	from, b := listAll, "b"
	if q.Open || onlyOpen(q.States) {
		from, b = listOpen, "o"
	}
	where := []string{"TRUE"}
	if q.Quarantined {
		from, b = listQuarantined, "b"
		if q.Open { // a batch in quarantine is final
			where = append(where, "FALSE")
		}
	}
	if q.Service != nil {
		where = append(where, b+".service_id = "+arg(string(*q.Service))+"::text")
	}
	if low != math.MinInt64 {
		where = append(where, b+".created_at >= "+arg(low)+"::bigint")
	}
	if len(q.States) > 0 {
		states := arg(intArray(len(q.States), func(i int) int64 { return int64(q.States[i]) }))
		where = append(where, fmt.Sprintf("coalesce(a.state, f.state, %d) = ANY (%s::smallint[])", batch.Queued, states))
	}
	if q.OlderThan > 0 {
		where = append(where, b+".created_at <= "+arg(now-int64(q.OlderThan/time.Microsecond))+"::bigint")
	}
	if q.NewerThan > 0 {
		where = append(where, b+".created_at > "+arg(now-int64(q.NewerThan/time.Microsecond))+"::bigint")
	}
	if q.After != "" {
		at, id, err := store.ParseCursor(q.After)
		if err != nil {
			return "", nil, err
		}
		where = append(where, fmt.Sprintf("(%s.created_at, b.header_signature) > (%s::bigint, %s::text)", b, arg(at), arg(id)))
		// The same again for the index, which does not hold the id.
		where = append(where, fmt.Sprintf("%s.created_at >= %s::bigint", b, arg(at)))
	}
	return from + strings.Join(where, " AND ") + " ORDER BY " + b + ".created_at, b.header_signature LIMIT " + arg(int64(q.Limit+1)) + "::bigint", args, nil
}

func onlyOpen(states []batch.State) bool {
	for _, s := range states {
		if s == batch.Committed || s == batch.Invalid || s == batch.Rejected {
			return false
		}
	}
	return len(states) > 0
}

// records reads the columns of colsRecord.
func (t *session) records(ctx context.Context, text string, args ...any) ([]batch.Record, error) {
	return t.recordsAs(ctx, func(s *stored) []any { return append(storedDest(s), &s.final, &s.quarantined) }, text, args...)
}

// recordsAs is records of a statement with other columns.
func (t *session) recordsAs(ctx context.Context, dest func(*stored) []any, text string, args ...any) ([]batch.Record, error) {
	rows, err := queryText(ctx, t, 0, dest, text, args...)
	if err != nil {
		return nil, err
	}
	bySeq := make(map[int64]*stored, len(rows))
	for i := range rows {
		rows[i].unpack()
		bySeq[rows[i].seq] = &rows[i]
	}
	if err := t.loadReceipts(ctx, bySeq); err != nil {
		return nil, err
	}
	found := make([]batch.Record, len(rows))
	for i := range rows {
		found[i] = rows[i].record()
	}
	return found, nil
}
