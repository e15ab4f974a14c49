package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// CountOpen is [store.Store].CountOpen. Other callers wait while it counts. This does not take
// long, since the store has no more batches than fit into memory.
func (s *Store) CountOpen(ctx context.Context) (store.Totals, error) {
	if err := ctx.Err(); err != nil {
		return store.Totals{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(s.now()), nil
}

// count counts open batches. s.mu is held.
func (s *Store) count(now time.Time) store.Totals {
	c := store.Totals{At: now, Open: map[batch.State]int{}, Orders: map[string]int{}}
	for _, l := range s.openLaneNames.queuesAfter("", true) {
		if l.openCount() == 0 {
			continue
		}
		c.Lanes++
		lane := store.LaneAge{Service: l.service, Open: l.openCount()}
		for _, queue := range []*list[*entry]{&l.queued, &l.attempted} {
			for i, e := range queue.first(queue.len()) {
				if i == 0 {
					lane.Oldest = earlierTime(lane.Oldest, e.created)
				}
				c.Open[e.row.State]++
				if e.row.InDoubt(now) {
					c.InDoubt++
					c.OldestDoubt = earlierTime(c.OldestDoubt, e.row.DoubtSince)
				}
				if e.row.Decision != "" {
					c.Undecided++
				}
			}
		}
		c.Oldest = earlierTime(c.Oldest, lane.Oldest)
		c.OldestLanes = append(c.OldestLanes, lane)
	}
	slices.SortFunc(c.OldestLanes, func(a, b store.LaneAge) int {
		return cmp.Or(a.Oldest.Compare(b.Oldest), cmp.Compare(a.Service, b.Service))
	})
	c.OldestLanes = slices.Clone(c.OldestLanes[:min(len(c.OldestLanes), store.OldestLanes)])
	for _, e := range s.byID {
		if e.row.Quarantined {
			c.Quarantined++
		}
	}
	for _, of := range s.controls {
		switch paused := !of.PausedAt.IsZero(); {
		case of.All:
			c.AllPaused = paused
		case paused:
			c.Paused++
		}
		if !of.HaltedAt.IsZero() {
			c.Halted++
		}
	}
	for _, o := range s.orders.byID {
		if !o.row.State.Final() {
			c.Orders[o.row.State.String()]++
			c.OldestOrder = earlierTime(c.OldestOrder, o.created)
		}
		if o.row.State == order.Quarantined && now.Sub(o.row.FinalAt) < store.RefusedFor {
			c.RefusedOrders++
			c.OldestRefused = earlierTime(c.OldestRefused, o.row.FinalAt)
		}
	}
	return c
}

// earlierTime returns the earlier of two times; if a is the zero time, it returns b.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
