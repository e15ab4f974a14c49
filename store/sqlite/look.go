package sqlite

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Look is [store.Inspector].Look: one transaction that only reads, and so sees one moment.
func (s *Store) Look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	err = s.snapshot(ctx, "look", func(ctx context.Context, t *session) (err error) {
		l, err = t.look(ctx, key, max(1, window))
		return err
	})
	if err != nil {
		return store.Look{}, err
	}
	return l, nil
}

func (t *session) look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	if l.At, err = t.now(ctx); err != nil {
		return l, err
	}
	var seq int64
	switch err := t.get(ctx, &seq, sqlSeqByKey, idHash(key.ID), string(key.ID), string(key.Service)); {
	case noRows(err):
		return l, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	case err != nil:
		return l, err
	}
	b := &claimable{}
	found, err := t.one(ctx, func(c *cells) { b = wholeRow(c) }, sqlLookOpen, seq)
	if err == nil && !found {
		_, err = t.one(ctx, func(c *cells) { b.BatchCols, b.footprint = batchOf(c), footprintOf(c); b.finalOf(c) }, sqlLookFinal, seq)
	}
	if err != nil {
		return l, fmt.Errorf("batch %s: %w", key, err)
	}
	if err := t.loadReceipts(ctx, &b.stored); err != nil {
		return l, err
	}
	l.Ref, l.Row, l.Record, l.Budget, l.Footprint = b.Ref(), b.now, b.Record(b.now), b.Budget(), b.footprint
	if l.Everything, err = t.control(ctx, batch.Everything()); err != nil {
		return l, err
	}
	if l.Service, err = t.control(ctx, batch.Only(key.Service)); err != nil || b.now.Final() {
		return l, err
	}
	lane, err := t.attempted(ctx, windowAttempted, wholeRow, []batch.ServiceID{key.Service},
		func(batch.ServiceID, []store.LaneRow) int { return window })
	if err != nil {
		return l, err
	}
	if err := t.waiting(ctx, windowWaiting, wholeRow, lane); err != nil {
		return l, err
	}
	l.Lane = store.InOrder(laneRows(lane[0].rows), window)
	return l, nil
}
