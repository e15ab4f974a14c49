package totals_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/totals"
	"github.com/dltbatch/dltbatch/store"
)

func TestSum(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lanes := func(seconds ...int) (list []store.LaneAge) {
		for _, s := range seconds {
			list = append(list, store.LaneAge{Service: batch.ServiceID(rune('a' + s)), Oldest: at.Add(time.Duration(s) * time.Second), Open: 1})
		}
		return list
	}
	a := store.Stats{Age: time.Second, Instances: []store.Instance{{Name: "one"}}, Totals: store.Totals{
		At: at.Add(time.Minute), By: "one", Took: time.Second, Schema: 1, Open: map[batch.State]int{batch.Queued: 3, batch.Pending: 1}, Oldest: at.Add(time.Second), Lanes: 2, InDoubt: 1,
		OldestDoubt: at, Undecided: 1, Quarantined: 2, Paused: 3, Halted: 4, AllPaused: true, OldestLanes: lanes(1, 3, 5, 7, 9, 11), Orders: map[string]int{"queued": 2},
		Sizes: []store.Size{{Name: "batches", Bytes: 10, Dead: 1}, {Name: "texts", Bytes: 1}},
	}}
	b := store.Stats{Age: time.Minute, Instances: []store.Instance{{Name: "one"}, {Name: "two"}}, Totals: store.Totals{
		At: at, Open: map[batch.State]int{batch.Queued: 4}, Oldest: at, Lanes: 3, OldestLanes: lanes(0, 2, 4, 6, 8, 10), Orders: map[string]int{"queued": 1, "dequeued": 1}, OldestOrder: at,
		Sizes: []store.Size{{Name: "batches", Bytes: 5, Dead: 2}},
	}}
	want := store.Stats{Age: time.Minute, Instances: []store.Instance{{Name: "one"}, {Name: "one"}, {Name: "two"}}, Totals: store.Totals{
		At: at, Open: map[batch.State]int{batch.Queued: 7, batch.Pending: 1}, Oldest: at, Lanes: 5, InDoubt: 1, OldestDoubt: at, Undecided: 1, Quarantined: 2, Paused: 3, Halted: 4,
		OldestLanes: lanes(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), Orders: map[string]int{"queued": 3, "dequeued": 1}, OldestOrder: at,
		Sizes: []store.Size{{Name: "batches", Bytes: 15, Dead: 3}, {Name: "texts", Bytes: 1}},
	}}
	assert.Equal(t, want, totals.Sum([]store.Stats{a, b}))
	both := totals.Sum([]store.Stats{a, a})
	assert.True(t, both.AllPaused)
	assert.True(t, totals.Sum([]store.Stats{a, {}}).At.IsZero(), "one was not counted yet")
}
