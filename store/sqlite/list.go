package sqlite

import (
	"context"
	"fmt"
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
	err = s.read(ctx, "get", func(ctx context.Context, t *session) error {
		found, err := t.records(ctx, sqlGet, idHash(key.ID), string(key.ID))
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
	if _, _, err := listSQL(q, 0); err != nil {
		return nil, "", err
	}
	err = s.read(ctx, "list", func(ctx context.Context, t *session) (err error) {
		var now time.Time
		if q.OlderThan > 0 || q.NewerThan > 0 {
			if now, err = t.now(ctx); err != nil {
				return err
			}
		}
		query, args, err := listSQL(q, sqlstore.ToMicro(now))
		if err != nil {
			return err
		}
		found, err = t.records(ctx, query, args...)
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
// database's clock in microseconds, where the query has ages.
func listSQL(q store.ListQuery, now int64) (string, []any, error) {
	// Open batches are found through their own table, however long the history is.
	from, b := listAll, "b"
	if q.Open || onlyOpen(q.States) {
		from, b = listOpen, "o"
	}
	where, args := []string{"TRUE"}, []any{}
	if q.Quarantined {
		from, b = listQuarantined, "b"
		if q.Open { // a batch in quarantine is final
			where = append(where, "FALSE")
		}
	}
	if q.Service != nil {
		where, args = append(where, b+".service_id = ?"), append(args, string(*q.Service))
	}
	if len(q.States) > 0 {
		where = append(where, "coalesce(o.state, f.state) IN (?"+strings.Repeat(", ?", len(q.States)-1)+")")
		for _, st := range q.States {
			args = append(args, int64(st))
		}
	}
	if q.OlderThan > 0 {
		where, args = append(where, b+".created_at <= ?"), append(args, now-int64(q.OlderThan/time.Microsecond))
	}
	if q.NewerThan > 0 {
		where, args = append(where, b+".created_at > ?"), append(args, now-int64(q.NewerThan/time.Microsecond))
	}
	if q.After != "" {
		at, id, err := store.ParseCursor(q.After)
		if err != nil {
			return "", nil, err
		}
		where, args = append(where, "("+b+".created_at, b.header_signature) > (?, ?)"), append(args, at, id)
	}
	return from + strings.Join(where, " AND ") + " ORDER BY " + b + ".created_at, b.header_signature LIMIT ?", append(args, q.Limit+1), nil
}

func onlyOpen(states []batch.State) bool {
	for _, s := range states {
		if s == batch.Committed || s == batch.Invalid || s == batch.Rejected {
			return false
		}
	}
	return len(states) > 0
}

func (t *session) records(ctx context.Context, query string, args ...any) ([]batch.Record, error) {
	var rows []storedCols
	if err := t.sel(ctx, &rows, query, args...); err != nil {
		return nil, err
	}
	found := make([]batch.Record, len(rows))
	for i := range rows {
		s := rows[i].stored()
		if err := t.loadReceipts(ctx, s); err != nil {
			return nil, err
		}
		found[i] = s.record()
	}
	return found, nil
}
