package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// A standstill begins when batches wait in a lane that is not paused or halted, and nothing in the
// whole database shows that a batch moves. It lasts until something moves.
func TestCountsOfAStandstill(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-time.Hour)
	stats := func(change func(s *store.Stats)) store.Stats {
		s := store.Stats{Totals: store.Totals{At: now, Lanes: 3, Open: map[batch.State]int{batch.Queued: 2, batch.Delayed: 1, batch.Submitting: 1}}}
		change(&s)
		return s
	}
	moves := func(live bool) func(s *store.Stats) {
		return func(s *store.Stats) {
			s.Instances = []store.Instance{{Live: live, Flows: []store.Flow{{}, {Final: 1}}}}
		}
	}
	for name, c := range map[string]struct {
		before     time.Time
		change     func(s *store.Stats)
		acceptedAt time.Time
		wantSince  time.Time
	}{
		"it begins":                           {time.Time{}, func(*store.Stats) {}, time.Time{}, now},
		"it goes on":                          {since, func(*store.Stats) {}, time.Time{}, since},
		"nothing waits":                       {since, func(s *store.Stats) { s.Open = map[batch.State]int{batch.Submitting: 1} }, time.Time{}, time.Time{}},
		"the ledger has one in hand":          {since, func(s *store.Stats) { s.Open[batch.Pending] = 1 }, time.Time{}, time.Time{}},
		"the ledger has one in its hand":      {since, func(s *store.Stats) { s.Open[batch.Valid] = 1 }, time.Time{}, time.Time{}},
		"everything is paused":                {since, func(s *store.Stats) { s.AllPaused = true }, time.Time{}, time.Time{}},
		"as many lanes are held as have work": {since, func(s *store.Stats) { s.Paused, s.Halted = 2, 1 }, time.Time{}, time.Time{}},
		"one lane is not held":                {since, func(s *store.Stats) { s.Paused, s.Halted = 1, 1 }, time.Time{}, since},
		"an instance sees one end":            {since, moves(true), time.Time{}, time.Time{}},
		"an instance that died saw one end":   {since, moves(false), time.Time{}, since},
		"this one had one accepted":           {since, func(*store.Stats) {}, now.Add(-time.Minute), now.Add(-time.Minute)},
		"nobody has counted":                  {since, func(s *store.Stats) { *s = store.Stats{} }, time.Time{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := nextCounts(health.Counts{StandingSince: c.before}, now, stats(c.change), c.acceptedAt)
			assert.Equal(t, c.wantSince, got.StandingSince)
		})
	}
}

// Batches that need a person are counted since the first read that has any, and refused orders
// since the refusal.
func TestCountsSaySinceWhen(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	ahead := time.Hour // how far the database's clock is ahead
	s := store.Stats{Totals: store.Totals{At: now.Add(ahead), Undecided: 1, Halted: 2, RefusedOrders: 1, OldestRefused: now.Add(ahead - time.Minute)}}
	first := nextCounts(health.Counts{}, now, s, time.Time{})
	later := nextCounts(first, now.Add(time.Minute), s, time.Time{})
	for _, c := range []health.Counts{first, later} {
		assert.Equal(t, now, c.UndecidedSince)
		assert.Equal(t, now, c.HaltedSince)
	}
	assert.Equal(t, now.Add(-time.Minute), first.RefusedSince)
	over := nextCounts(later, now.Add(2*time.Minute), store.Stats{Totals: store.Totals{At: now}}, time.Time{})
	assert.Zero(t, over.UndecidedSince)
	assert.Zero(t, over.HaltedSince)
	assert.Zero(t, over.RefusedSince)
}
