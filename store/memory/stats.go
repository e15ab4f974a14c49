package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// stats are the kept counts and instances.
type stats struct {
	turn      store.StatsTurn
	totals    store.Totals
	instances map[string]store.Instance // by id
}

// KeepInstance is [store.Store].KeepInstance.
func (s *Store) KeepInstance(ctx context.Context, i store.Instance) error {
	if err := cmp.Or(ctx.Err(), i.Validate()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.Stopped {
		delete(s.stats.instances, i.ID)
		return nil
	}
	i.Seen = s.now()
	i.Since = i.Seen
	if was, known := s.stats.instances[i.ID]; known {
		i.Since = was.Since
	}
	i.Unseen, i.Live, i.Shared, i.Schema = 0, false, false, 0
	s.stats.instances[i.ID] = cloneInstance(i)
	return nil
}

// RefreshStats is [store.Store].RefreshStats. It counts while everybody waits: this store
// keeps no more than a process can hold.
func (s *Store) RefreshStats(ctx context.Context, q store.RefreshQuery) (bool, error) {
	q, err := q.Bounded()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.stats.turn.Due(now, q) {
		return false, nil
	}
	s.forgetInstances(now, q.Forget)
	from := time.Now()
	totals := s.count(now)
	totals.At, totals.Took, totals.By = now, time.Since(from), q.By
	s.stats.totals = totals.After(s.stats.totals)
	s.stats.turn = s.stats.turn.Take(now).End(now, now, totals.Took)
	return true, nil
}

// Stats is [store.Store].Stats.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := ctx.Err(); err != nil {
		return store.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	read := store.Stats{Totals: s.stats.totals}
	read.Open, read.Orders = maps.Clone(read.Open), maps.Clone(read.Orders)
	read.OldestLanes, read.Earlier = slices.Clone(read.OldestLanes), slices.Clone(read.Earlier)
	for _, i := range s.stats.instances {
		read.Instances = append(read.Instances, cloneInstance(i))
	}
	return read.AsOf(s.now()), nil
}

func cloneInstance(i store.Instance) store.Instance {
	i.Settings, i.Loops = maps.Clone(i.Settings), maps.Clone(i.Loops)
	i.Flows = slices.Clone(i.Flows)
	return i
}

// forgetInstances removes instances that were not seen for so long, and all but the last
// MaxInstances. s.mu is held.
func (s *Store) forgetInstances(now time.Time, after time.Duration) {
	all := slices.SortedFunc(maps.Values(s.stats.instances), func(a, b store.Instance) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID))
	})
	for n, i := range all {
		if n >= store.MaxInstances || after > 0 && now.Sub(i.Seen) >= after {
			delete(s.stats.instances, i.ID)
		}
	}
}

// count counts open batches. s.mu is held.
func (s *Store) count(now time.Time) store.Totals {
	c := store.Totals{Open: map[batch.State]int{}, Orders: map[string]int{}}
	for _, l := range s.order.from("", true) {
		if l.open() == 0 {
			continue
		}
		c.Lanes++
		lane := store.LaneAge{Service: l.service, Open: l.open()}
		for _, queue := range []*list[*entry]{&l.queued, &l.attempted} {
			for i, e := range queue.first(queue.len()) {
				if i == 0 {
					lane.Oldest = oldest(lane.Oldest, e.created)
				}
				c.Open[e.row.State]++
				if e.row.InDoubt(now) {
					c.InDoubt++
					c.OldestDoubt = oldest(c.OldestDoubt, e.row.DoubtSince)
				}
				if e.row.Decision != "" {
					c.Undecided++
				}
			}
		}
		c.Oldest = oldest(c.Oldest, lane.Oldest)
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
			c.OldestOrder = oldest(c.OldestOrder, o.created)
		}
	}
	return c
}

// oldest returns the earlier of two times; zero is no time.
func oldest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
