package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/position"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// maxKnownLanes is the number of remembered lanes up to which Lanes looks at each lane,
	// without a scan before.
	maxKnownLanes = 1000
	// quickScanTimeout is how long a scan of all lanes may take if more lanes than that are
	// remembered.
	quickScanTimeout = "200ms"
)

// Lanes is [store.Store].Lanes. It leaves out names that no call accepts; [Store.Upkeep] reports
// them.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	return s.unusable.Page(q, func(q store.LanesQuery) ([]batch.ServiceID, error) { return s.scan(ctx, q) })
}

// scan reads lanes. A scan jumps from lane to lane, and reads over the dead rows of each, of which
// there are many while some transaction holds an old snapshot. So scan looks up each lane whose
// open work is known to begin further on, from that place on. It does so at once if these lanes
// are few, and otherwise after a scan that took too long.
func (s *Store) scan(ctx context.Context, q store.LanesQuery) (lanes []batch.ServiceID, err error) {
	if !s.positions.Scan.Found.Load() && s.isFalse(ctx, s.sql(sqlAnyOpen)) {
		return nil, nil
	}
	defer func() { s.positions.Scan.Found.Store(err == nil && len(lanes) > 0) }()
	known := s.positions.Lanes.Len()
	if known > maxKnownLanes && !s.positions.Scan.IsCareful(time.Now()) {
		err = s.read(ctx, "list lanes", func(ctx context.Context, t *session) error {
			if _, err := sqlstore.Query[string](ctx, t, sqlTimeout, quickScanTimeout); err != nil {
				return err
			}
			lanes, err = t.allLanes(ctx, q)
			return err
		})
		if sqlState(err) != queryCanceled || ctx.Err() != nil {
			return lanes, err
		}
		s.positions.Scan.TookLong(time.Now())
	}
	err = s.read(ctx, "list lanes", func(ctx context.Context, t *session) error {
		if known == 0 {
			lanes, err = t.allLanes(ctx, q)
		} else {
			lanes, err = t.knownLanes(ctx, q, s.positions.Lanes.Names())
		}
		return err
	})
	return lanes, err
}

func (t *session) allLanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if q.Start {
		return sqlstore.Query[batch.ServiceID](ctx, t, sqlLanesFirst, int64(q.Limit))
	}
	return sqlstore.Query[batch.ServiceID](ctx, t, sqlLanesAfter, int64(q.Limit), string(q.After))
}

// knownLanes looks up each remembered lane, and searches for other lanes between them.
func (t *session) knownLanes(ctx context.Context, q store.LanesQuery, names []batch.ServiceID) (lanes []batch.ServiceID, err error) {
	if at, found := slices.BinarySearch(names, q.After); !q.Start {
		if !found {
			names = slices.Insert(names, at, q.After)
		}
		names = names[at:] // q.After itself is not asked for
	} else if len(names) == 0 || names[0] != "" {
		names = slices.Insert(names, 0, "")
	}
	last := names[len(names)-1]
	for first := !q.Start; len(names) > 0; first = false {
		part := names[:min(len(names), max(q.Limit, maxKnownLanes))]
		next := append(slices.Clone(part[1:]), part[len(part)-1]) // no lane follows the last one
		if names = names[len(part):]; len(names) > 0 {
			next[len(next)-1] = names[0]
		}
		low, err := t.scanFloors(ctx, part)
		if err != nil {
			return nil, err
		}
		type known struct {
			Open bool `db:"open"`
			More bool `db:"more"` // true if there may be lanes between this lane and the next
		}
		all, err := sqlstore.Query[known](ctx, t, sqlKnownLanes, texts(part), ints(low), texts(next))
		if err != nil {
			return nil, err
		}
		for i, l := range all {
			if l.Open && !(first && i == 0) {
				lanes = append(lanes, part[i])
			}
			if l.More {
				more, err := sqlstore.Query[batch.ServiceID](ctx, t, sqlLanesBetween, int64(q.Limit), string(part[i]), string(next[i]))
				if err != nil {
					return nil, err
				}
				lanes = append(lanes, more...)
			}
			if len(lanes) >= q.Limit {
				return lanes[:q.Limit], nil
			}
		}
	}
	more, err := sqlstore.Query[batch.ServiceID](ctx, t, sqlLanesAfter, int64(q.Limit-len(lanes)), string(last))
	return append(lanes, more...), err
}

// lock locks the lanes that no other claim has locked. It also returns the lanes that others have
// locked, and the lanes with batches from which no claim was ever made.
func (t *session) lock(ctx context.Context, lanes []batch.ServiceID, from *position.Claim) (got []heldLane, locked, fresh []batch.ServiceID, now int64, err error) {
	rows, err := sqlstore.Query[lockedRow](ctx, t, sqlLockLanes, texts(lanes))
	if err != nil {
		return nil, nil, nil, 0, err
	}
	if rows, err = t.noteAdders(ctx, from, rows); err != nil {
		return nil, nil, nil, 0, err
	}
	mine := make(map[batch.ServiceID]bool, len(rows))
	for _, l := range rows {
		mine[l.Service] = true
		now = max(now, l.At)
	}
	got = heldLanesOf(from, rows)
	if len(rows) == len(lanes) {
		return got, nil, nil, now, nil
	}
	missing := slices.DeleteFunc(slices.Clone(lanes), func(s batch.ServiceID) bool { return mine[s] })
	locked, fresh, err = t.splitLanes(ctx, missing)
	return got, locked, fresh, now, err
}

// splitLanes separates the lanes that have a row to lock from the lanes that have only batches. It
// leaves out closed lanes.
func (t *session) splitLanes(ctx context.Context, lanes []batch.ServiceID) (there, fresh []batch.ServiceID, err error) {
	if len(lanes) == 0 {
		return nil, nil, nil
	}
	type standing struct {
		Service batch.ServiceID `db:"service_id"`
		There   bool            `db:"there"`
		Open    bool            `db:"open"`
	}
	found, err := sqlstore.Query[standing](ctx, t, sqlLanesThere, texts(lanes))
	for _, l := range found {
		switch {
		case l.There:
			there = append(there, l.Service)
		case l.Open:
			fresh = append(fresh, l.Service)
		}
	}
	return there, fresh, err
}

// makeLaneRows inserts the rows that claims lock, for lanes with open batches. It does so in a
// transaction of its own, so that no other claim has to wait.
func (s *Store) makeLaneRows(ctx context.Context, op string, lanes []batch.ServiceID) error {
	return s.txAs(ctx, op, beginKept, func(ctx context.Context, t *session) error {
		_, err := t.Exec(ctx, sqlNewLanes, texts(lanes))
		return err
	})
}
