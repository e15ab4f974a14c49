package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Get is [store.Store].Get.
func (s *Store) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	return readResult(ctx, s.driver.Snapshot, "get", func(ctx context.Context, t Tx) (batch.Record, error) {
		found, err := readRecords(ctx, t, s.driver.ListAll+`b.id_hash = $1::uuid`, hashText(key.ID))
		switch {
		case err != nil:
			return batch.Record{}, err
		case len(found) > 0 && found[0].Key == key:
			return found[0], nil
		case key.Validate() != nil:
			return batch.Record{}, notFoundError(key)
		}
		found, err = s.tombstoneRecords(ctx, t, []batch.Key{key})
		switch {
		case err != nil:
			return batch.Record{}, err
		case len(found) > 0 && found[0].Key == key:
			return found[0], nil
		}
		return batch.Record{}, notFoundError(key)
	})
}

// List is [store.Store].List. Without a service it also reads the records that the other
// conditions exclude. That is acceptable, because List is for people and tools.
func (s *Store) List(ctx context.Context, q store.ListQuery) (found []batch.Record, next store.Cursor, err error) {
	q = q.Bounded()
	if err := cmp.Or(q.Validate(), checkCursor(q.After)); err != nil {
		return nil, "", s.driver.Wrap("list", err)
	}
	if q.Service != nil && !areStorable(*q.Service) {
		return nil, "", nil
	}
	more := false
	found, err = readResult(ctx, s.driver.Snapshot, "list", func(ctx context.Context, t Tx) (_ []batch.Record, err error) {
		var now int64
		if q.OlderThan > 0 || q.NewerThan > 0 { // the time as a value, because an index cannot be searched for the result of the clock function
			if now, err = Now(ctx, t); err != nil {
				return nil, err
			}
		}
		var floors []int64
		if q.Service != nil && (q.Open || areOpen(q.States)) {
			if floors, err = t.Floors(ctx, Services([]batch.ServiceID{*q.Service})); err != nil {
				return nil, err
			}
		}
		statement, args, err := s.driver.listStatement(t, q, now, append(floors, math.MinInt64)[0])
		if err != nil {
			return nil, err
		}
		rows, err := Query[foundCols](ctx, t, statement, args...)
		if err != nil {
			return nil, err
		}
		receipts := make([]int64, len(rows))
		for i := range rows {
			receipts[i] = rows[i].Receipts
		}
		n := q.Cut(receipts)
		more = n < len(rows)
		return withReceipts(ctx, t, rows[:n])
	})
	if err != nil {
		return nil, "", err
	}
	if more {
		last := found[len(found)-1]
		next = store.CursorAfter(last.CreatedAt, string(last.ID))
	}
	return found, next, nil
}

// conditions are the conditions at the end of a statement, with a "?" for each argument, and the
// arguments.
type conditions struct {
	where []string
	args  []any
}

func (c *conditions) add(condition string, args ...any) {
	c.where, c.args = append(c.where, condition), append(c.args, args...)
}

// statement returns a statement with the conditions between from and end.
func (c *conditions) statement(from, end string, args ...any) (string, []any) {
	return sqlx.Rebind(sqlx.DOLLAR, from+strings.Join(append(c.where, "TRUE"), " AND ")+end), append(c.args, args...)
}

// addStates adds the condition that an expression is one of n states.
func (c *conditions) addStates(t Tx, expression string, n int, at func(i int) any) {
	if n > 0 {
		c.add(expression+" = ANY (?::smallint[])", t.Array(n, at))
	}
}

// pageStatement adds the condition where the page begins, and returns the statement, which asks
// for one row more than the limit.
func (c *conditions) pageStatement(from string, after store.Cursor, created, id string, newest bool, limit int) (string, []any, error) {
	beyond, way := ">", ""
	if newest {
		beyond, way = "<", " DESC"
	}
	if after != "" {
		at, last, err := store.ParseCursor(after)
		if err != nil {
			return "", nil, err
		}
		c.add(fmt.Sprintf("(%s, %s) %s (?::bigint, ?::text)", created, id, beyond), at, last)
		// The condition on the time alone serves an index that does not have the id.
		c.add(fmt.Sprintf("%s %s= ?::bigint", created, beyond), at)
	}
	end := fmt.Sprintf(" ORDER BY %s%s, %s%s LIMIT ?::bigint", created, way, id, way)
	statement, args := c.statement(from, end, int64(limit+1))
	return statement, args, nil
}

// checkAfter returns an error for a place in a list of services that no list has returned.
// PostgreSQL's own error would not look like one of wrong input. unused is true if the query does
// not use the place.
func checkAfter(after batch.ServiceID, unused bool) error {
	if unused {
		return nil
	}
	if err := batch.Only(after).Validate(); err != nil {
		return &batch.InputError{Field: "After", Value: batch.Excerpt(string(after), 64), Want: "a service that an earlier call returned", Err: err}
	}
	return nil
}

func checkCursor(after store.Cursor) error {
	_, _, err := store.ParseCursor(after)
	return err
}

// listStatement builds the statement of a List. now is the database's clock in microseconds if the
// query has ages. low is an order key below which nothing of the lane is open.
func (d *Driver) listStatement(t Tx, q store.ListQuery, now, low int64) (string, []any, error) {
	var c conditions
	// Open batches are found through their own tables, so the length of the history does not
	// matter.
	from, b := d.ListAll, "b"
	if q.Open || areOpen(q.States) {
		from, b = d.ListOpen, "o"
	}
	if q.Quarantined {
		from, b = d.ListQuarantined, "b"
		if q.Open { // no batch in quarantine is open
			c.add("FALSE")
		}
	}
	at := b + ".created_at"
	if q.Tag.Value != "" {
		from, b, at = d.ListTagged, "b", "t.created_at"
		c.addTag(q)
	}
	if q.Service != nil {
		c.add(b+".service_id = ?::text", string(*q.Service))
	}
	if low != math.MinInt64 {
		c.add(at+" >= ?::bigint", low)
	}
	c.addStates(t, d.State, len(q.States), func(i int) any { return int64(q.States[i]) })
	if q.OlderThan > 0 {
		c.add(at+" <= ?::bigint", now-int64(q.OlderThan/time.Microsecond))
	}
	if q.NewerThan > 0 {
		c.add(at+" > ?::bigint", now-int64(q.NewerThan/time.Microsecond))
	}
	return c.pageStatement(from, q.After, at, "b.header_signature", q.NewestFirst, q.Limit)
}

// addTag adds the conditions of a list of tagged batches. Such a list does not use the tables of
// open batches or of batches in quarantine.
func (c *conditions) addTag(q store.ListQuery) {
	if q.Open {
		c.add("f.seq IS NULL")
	}
	if q.Quarantined {
		c.add("coalesce(f.quarantined, false)")
	}
	if q.Tag.Name == "" {
		c.add(tagValueMatches, q.Tag.Value)
		return
	}
	c.add(tagNameAndValueMatch, q.Tag.Name, q.Tag.Value)
}

func areOpen(states []batch.State) bool {
	for _, s := range states {
		if s == batch.Committed || s == batch.Invalid || s == batch.Rejected {
			return false
		}
	}
	return len(states) > 0
}

// Finals is [store.Store].Finals.
func (s *Store) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	err = s.driver.Snapshot(ctx, "find final batches", func(ctx context.Context, t Tx) error {
		ask, want := Want(keys, func(k batch.Key) bool { return k.Validate() == nil }) // in each run of the transaction, since each found record is taken out of want
		final = nil
		for some := range slices.Chunk(ask, store.MaxKeys) {
			found, err := readRecords(ctx, t, sqlFinals, hashesOf(t, some))
			if err != nil {
				return err
			}
			for _, r := range found {
				if want.Take(r.Key) && r.Final() {
					final = append(final, r)
				}
			}
		}
		for some := range slices.Chunk(slices.DeleteFunc(ask, func(k batch.Key) bool { return !want[k] }), store.MaxKeys) {
			found, err := s.tombstoneRecords(ctx, t, some)
			if err != nil {
				return err
			}
			for _, r := range found {
				if want.Take(r.Key) {
					final = append(final, r)
				}
			}
		}
		missing = want.Missing()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, missing, nil
}

// Counts is [store.Store].Counts.
func (s *Store) Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	q = q.Bounded()
	const op = "count open batches"
	if err := checkAfter(q.After, q.Start || q.Service != nil); err != nil {
		return nil, s.driver.Wrap(op, err)
	}
	return readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) (_ []store.LaneCounts, err error) {
		var lanes []batch.ServiceID
		if q.Service != nil {
			lanes = Services([]batch.ServiceID{*q.Service})
		} else if lanes, err = s.laneNames(ctx, t, store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit}); err != nil {
			return nil, err
		}
		if len(lanes) == 0 {
			return []store.LaneCounts{}, nil
		}
		low, err := t.Floors(ctx, lanes)
		if err != nil {
			return nil, err
		}
		found, err := s.countStates(ctx, t, lanes, low, q.Cap)
		return laneCounts(lanes, found, q.Service == nil), err
	})
}

// laneNames returns the lanes that have open batches, closed lanes included.
func (s *Store) laneNames(ctx context.Context, t Tx, q store.LanesQuery) ([]batch.ServiceID, error) {
	if q.Start {
		return Query[batch.ServiceID](ctx, t, s.driver.AllLanesFirst, int64(q.Limit))
	}
	return Query[batch.ServiceID](ctx, t, s.driver.AllLanesAfter, int64(q.Limit), string(q.After))
}

// countStates counts the open batches of lanes. low are the floors of these lanes: see Tx.Floors.
func (s *Store) countStates(ctx context.Context, t Tx, lanes []batch.ServiceID, floors []int64, most int) ([]stateCount, error) {
	args := []any{textArray(t, lanes), int64(most)}
	if floors != nil {
		args = append(args, t.Ints(floors))
	}
	return Query[stateCount](ctx, t, s.driver.Counts, args...)
}

// stateCount is one number about a lane: how many attempted batches it has in a state, or, if
// State is 0, how many waiting batches.
type stateCount struct {
	Service string `db:"service_id"`
	State   int64  `db:"state"`
	N       int64  `db:"n"`
}

// laneCounts combines the numbers of lanes, in the order of lanes. If keep is true, the result
// includes lanes without batches.
func laneCounts(lanes []batch.ServiceID, found []stateCount, keep bool) []store.LaneCounts {
	at := make(map[string]int, len(lanes))
	all := make([]store.LaneCounts, len(lanes))
	for i, service := range lanes {
		at[string(service)] = i
		all[i] = store.LaneCounts{Service: service, Attempted: map[batch.State]int{}}
	}
	for _, c := range found {
		if l := &all[at[c.Service]]; c.State == 0 {
			l.Waiting = int(c.N)
		} else {
			l.Attempted[batch.State(c.State)] = int(c.N)
		}
	}
	if keep {
		return all
	}
	return slices.DeleteFunc(all, func(c store.LaneCounts) bool { return c.Waiting == 0 && len(c.Attempted) == 0 })
}
