package sqlstore

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// CountOpen is [store.Store].CountOpen.
func (s *Store) CountOpen(ctx context.Context) (store.Totals, error) {
	return readResult(ctx, s.driver.Counting, "count open batches", func(ctx context.Context, t Tx) (store.Totals, error) {
		c := store.Totals{Open: map[batch.State]int{}, Orders: map[string]int{}}
		now, err := Now(ctx, t)
		if err != nil {
			return c, err
		}
		if err := Each(ctx, t, func(r *countRow) error { return r.addTo(&c) }, s.driver.CountOpen, now); err != nil {
			return c, err
		}
		c.At = FromMicro(now)
		c.Sizes, err = s.driver.Sizes(ctx, t)
		return c, err
	})
}

// countRow is a row of Queries.CountOpen.
type countRow struct {
	Kind string `db:"kind"`
	Name string `db:"name"`
	Code int64  `db:"code"`
	N    int64  `db:"n"`
	At   int64  `db:"at"`
}

func (r *countRow) addTo(c *store.Totals) error {
	n, at := int(r.N), FromMicro(r.At)
	switch r.Kind {
	case "state": // several rows may have the same state
		if n != 0 {
			c.Open[batch.State(r.Code)] += n
		}
	case "doubts":
		c.InDoubt, c.OldestDoubt = n, at
	case "undecided":
		c.Undecided = n
	case "lanes":
		c.Lanes, c.Oldest = n, at
	case "lane":
		c.OldestLanes = append(c.OldestLanes, store.LaneAge{Service: batch.ServiceID(r.Name), Oldest: at, Open: n})
	case "quarantined":
		c.Quarantined = n
	case "paused":
		if r.Code == 0 {
			c.Paused = n
		} else {
			c.AllPaused = n > 0
		}
	case "halted":
		if r.Code == 0 {
			c.Halted = n
		}
	case "schema":
		c.Schema = r.N
	case "orders":
		c.Orders[order.State(r.Code).String()] = n
		if c.OldestOrder.IsZero() || at.Before(c.OldestOrder) {
			c.OldestOrder = at
		}
	case "refused":
		c.RefusedOrders, c.OldestRefused = n, at
	default:
		return fmt.Errorf("a count of %q", r.Kind)
	}
	return nil
}
