package postgres

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Lanes is [store.Engine].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) (lanes []batch.ServiceID, err error) {
	if s.nothing(ctx, s.sql(sqlAnyOpen)) {
		return nil, nil
	}
	err = s.tx(ctx, "list lanes", func(ctx context.Context, t *session) error {
		if q.Start {
			lanes, err = query(ctx, t, value[batch.ServiceID], sqlLanesFirst, int64(q.Limit))
		} else {
			lanes, err = query(ctx, t, value[batch.ServiceID], sqlLanesAfter, int64(q.Limit), string(q.After))
		}
		return err
	})
	return lanes, err
}

// lock takes the lanes that no other claim holds. It also returns the lanes that are held, and
// the lanes that have batches and were never claimed from.
func (t *session) lock(ctx context.Context, lanes []batch.ServiceID, from *starts) (got []heldLane, locked, fresh []batch.ServiceID, now int64, err error) {
	statement := sqlLockLanes
	if from.c != nil {
		statement = sqlLockAndLook
	}
	rows, err := query(ctx, t, (*lockedRow).dest, statement, texts(lanes))
	if err != nil {
		return nil, nil, nil, 0, err
	}
	if rows, err = t.whoAdds(ctx, from, rows); err != nil {
		return nil, nil, nil, 0, err
	}
	mine := make(map[batch.ServiceID]bool, len(rows))
	for _, l := range rows {
		mine[l.service] = true
		now = max(now, l.clock)
	}
	got = readFrom(from, rows)
	if len(rows) == len(lanes) {
		return got, nil, nil, now, nil
	}
	missing := slices.DeleteFunc(slices.Clone(lanes), func(s batch.ServiceID) bool { return mine[s] })
	locked, fresh, err = t.standing(ctx, missing)
	return got, locked, fresh, now, err
}

// standing separates lanes that have a row to lock from lanes that have only batches. Closed
// lanes are neither.
func (t *session) standing(ctx context.Context, lanes []batch.ServiceID) (there, fresh []batch.ServiceID, err error) {
	if len(lanes) == 0 {
		return nil, nil, nil
	}
	type standing struct {
		service     batch.ServiceID
		there, open bool
	}
	found, err := query(ctx, t, func(l *standing) []any { return []any{&l.service, &l.there, &l.open} }, sqlLanesThere, texts(lanes))
	for _, l := range found {
		switch {
		case l.there:
			there = append(there, l.service)
		case l.open:
			fresh = append(fresh, l.service)
		}
	}
	return there, fresh, err
}

// enlist makes the rows that claims lock, for lanes that have something to claim, in a
// transaction of its own, so that no other claim waits for this one.
func (s *Store) enlist(ctx context.Context, op string, lanes []batch.ServiceID) error {
	return s.txAs(ctx, op, beginKept, func(ctx context.Context, t *session) error {
		_, err := t.exec(ctx, sqlNewLanes, texts(lanes))
		return err
	})
}
