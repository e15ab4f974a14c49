package postgres

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// beginLook begins a transaction whose statements all see one moment.
const beginLook = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off"

// Look is [store.Inspector].Look.
func (s *Store) Look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	err = s.txAs(ctx, "look", beginLook, func(ctx context.Context, t *session) (err error) {
		l, err = t.look(ctx, key, max(1, window))
		return err
	})
	if err != nil {
		return store.Look{}, err
	}
	return l, nil
}

func (t *session) look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	found, err := sqlstore.Query(ctx, t, func(s *stored) []any {
		return append(storedDest(s), &s.FinalAt, &s.Quarantined, &s.Settled, &s.footprint, &s.clock)
	}, sqlLook, sqlstore.HashText(key.ID), string(key.ID), string(key.Service))
	if err != nil {
		return l, err
	}
	if len(found) == 0 {
		return l, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	}
	b := &found[0]
	b.unpack()
	if err := t.loadReceipts(ctx, map[int64]*sqlstore.Stored{b.Seq: &b.Stored}); err != nil {
		return l, err
	}
	l.At, l.Ref, l.Row, l.Record, l.Budget = sqlstore.FromMicro(b.clock), b.Ref(), b.Now, b.Record(), b.Budget()
	if l.Footprint, err = sqlstore.DecodeFootprint(b.footprint); err != nil {
		return l, fmt.Errorf("batch %s: %w", key, err)
	}
	if l.Everything, err = t.control(ctx, batch.Everything()); err != nil {
		return l, err
	}
	if l.Service, err = t.control(ctx, batch.Only(key.Service)); err != nil || b.Now.Final() {
		return l, err
	}
	lane := []batch.ServiceID{key.Service}
	windows, err := t.attempted(ctx, windowAttempted, []heldLane{{key.Service, wholeLane}}, lane, func(batch.ServiceID, []store.LaneRow) int { return window })
	if err != nil {
		return l, err
	}
	err = t.waiting(ctx, windowWaiting, windows)
	l.Lane = store.InOrder(windows[0].lane, window)
	return l, err
}
