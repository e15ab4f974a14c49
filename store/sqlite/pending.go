package sqlite

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Pending is [store.Store].Pending. While nothing is due it only reads.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	const op = "select pending batches"
	var found []store.InFlight
	find := func(ctx context.Context, t *session) (err error) {
		found, err = t.inFlight(ctx, q)
		return err
	}
	if q.Lease == 0 {
		err := s.read(ctx, op, find)
		return found, err
	}
	var due bool
	err := s.read(ctx, op, func(ctx context.Context, t *session) (err error) {
		if q.Services == nil {
			due, _, err = sqlstore.Get[bool](ctx, t, sqlAnyDue, sqlstore.Ahead(q), int64(batch.Submitting))
			return err
		}
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		rows, err := t.dueRows(ctx, q, now)
		due = len(rows) > 0
		return err
	})
	if err != nil || !due {
		return nil, err
	}
	err = s.write(ctx, op, find)
	if err != nil && !sqlstore.Maybe(err) {
		return nil, err
	}
	return found, err
}

// inFlight reads the rows that a query selects, and leases them if the query asks for a lease.
func (t *session) inFlight(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	now, err := t.now(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := t.dueRows(ctx, q, now)
	if err != nil {
		return nil, err
	}
	found := make([]store.InFlight, 0, len(rows))
	for i := range rows {
		r := rows[i]
		row := r.Now.Leased(now, q.Lease)
		if row.Monitored(now) { // due_at says the same, but the rule decides
			f := row.InFlight(r.Ref(), r.Budget(), now)
			f.AskedAgo = row.AskedAgo(r.Now.AskedAt, now)
			found = append(found, f)
		}
		switch {
		case q.Lease == 0:
			continue
		case r.Now.Ahead(now):
			if _, err := t.Exec(ctx, sqlUpdateOpen, append(openArgs(row, r.Had), r.Seq, r.Now.Version)...); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := t.Exec(ctx, sqlLease, sqlstore.ToMicro(row.AskedAt), sqlstore.ToMicro(row.NextCheck), dueAt(row), r.Seq); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// dueRows reads the rows that a query selects, in its order.
func (t *session) dueRows(ctx context.Context, q store.PendingQuery, now time.Time) (rows []*sqlstore.Stored, err error) {
	statement, args := sqlDue, []any{sqlstore.ToMicro(now), sqlstore.ToMicro(now) + sqlstore.Ahead(q), int64(batch.Submitting), q.Limit}
	if q.Services != nil {
		statement, args = sqlOwned, []any{jsonText(sqlstore.Services(q.Services)), int64(batch.Submitting), sqlstore.ToMicro(now), q.Limit}
	}
	err = sqlstore.Each(ctx, t, func(c *rowCols) error {
		rows = append(rows, c.stored())
		return nil
	}, statement, args...)
	return rows, err
}
