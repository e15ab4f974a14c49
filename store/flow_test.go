package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// While the counts rise, RisingSince stays the moment from which they rise, over any number of
// counts.
func TestCountsRiseSinceOneMoment(t *testing.T) {
	begin := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var kept store.Totals
	n := 0
	count := func(open int) time.Time {
		now := store.Totals{At: begin.Add(time.Duration(n) * 15 * time.Second), Open: map[batch.State]int{batch.Queued: open}}
		n++
		kept = now.After(kept)
		return kept.RisingSince
	}
	assert.Zero(t, count(5))
	assert.Zero(t, count(5))
	since := kept.At
	for open := range 3 * store.MaxFlows {
		assert.Equal(t, since, count(6+open))
	}
	assert.True(t, since.Before(kept.Earlier[0].At), "which is not among the counts any more")
	assert.Zero(t, count(7))
	since = kept.At
	assert.Equal(t, since, count(8))
	n = 0
	assert.Zero(t, count(9), "the clock was put back")
}
